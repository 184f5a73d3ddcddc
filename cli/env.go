package cli

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/api"
)

// Program is a binary with the verbs: its streams, environment and further commands.
type Program struct {
	In          io.Reader
	Out, ErrOut io.Writer // data, and everything else
	Getenv      func(string) string
	Now         func() time.Time
	Version     string
	Processes   []*cobra.Command // commands that run a process of a zone, or prepare one
	Federate    Federate         // for berth bench; nil if it can only measure a zone that runs
}

// Run carries out one command line, given without the name of the program. Pass its
// error to ReportError.
func (p *Program) Run(ctx context.Context, args []string) error {
	e := newEnv(p.Getenv, p.In, p.Out, p.ErrOut)
	e.version, e.processes, e.federate, e.now = p.Version, p.Processes, p.Federate, p.Now
	return e.executeArgs(ctx, args)
}

// env holds the streams and environment of a command, and the flags common to all verbs
// that call a zone. One env serves one command line.
type env struct {
	in          io.Reader
	out, errOut io.Writer // data, and everything else
	getenv      func(string) string
	inTTY       bool // a person can confirm
	outTTY      bool // what was written can be replaced
	errTTY      bool // a line on errOut can be overwritten
	version     string
	processes   []*cobra.Command
	federate    Federate
	now         func() time.Time // for dates that are given as distances
	http        *http.Client     // calls zones; nil for one that is made from the settings

	conn      connection
	args      []string // of the command line
	calling   string   // address of the zone, once there is a client
	format    string   // one of formats
	jq        string   // what to print of answers, "" for all
	list      listing
	noHeaders bool
}

func newEnv(getenv func(string) string, in io.Reader, out, errOut io.Writer) *env {
	return &env{in: in, out: out, errOut: errOut, getenv: getenv, inTTY: isTerminal(in), outTTY: isTerminal(out), errTTY: isTerminal(errOut)}
}

// isTerminal reports whether f is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd()))
}

// executeArgs runs the command that args name.
func (e *env) executeArgs(ctx context.Context, args []string) error {
	e.args = args
	root := rootCommand(e)                    //nolint:contextcheck // cobra hands ctx to what it runs
	root.SetArgs(append([]string{}, args...)) // for nil, cobra would take those of the process
	for i, arg := range args {
		if api.CheckText([]byte(arg)) != nil {
			return usageError(root, "argument %d is not valid UTF-8: %q", i+1, arg)
		}
	}
	return root.ExecuteContext(ctx)
}
