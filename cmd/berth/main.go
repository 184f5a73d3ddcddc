// Command berth is all of Berth in one binary: the processes of a zone (a node,
// an agent, a demonstration), and the verbs of its callers and operators.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // leases repeat by the clock of a time zone, and images of nodes may have no database

	"berth/cli"
	"berth/internal/goruntime"
)

// version is set when the binary is built: -ldflags "-X main.version=v1.2.3".
var version = "dev"

func main() {
	goruntime.Tune(os.Getenv)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runCommand(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(cli.ReportError(os.Stderr, err))
}

// runCommand carries out one command line, given without the name of the program. Its
// environment and streams are arguments, so that tests call it as main does.
func runCommand(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) error {
	e := &env{in: stdin, out: stdout, errOut: stderr}
	p := cli.Program{In: stdin, Out: stdout, ErrOut: stderr, Getenv: getenv, Now: readClock, Version: version}
	p.Federate = federate
	p.Processes = processCommands(e) //nolint:contextcheck // cobra hands ctx to what it runs
	return p.Run(ctx, args)
}

// env holds the environment and streams of a process.
type env struct {
	in          io.Reader
	out, errOut io.Writer // data, and everything else
}

// printLine writes a line of data.
func (e *env) printLine(format string, args ...any) {
	_, _ = fmt.Fprintf(e.out, format+"\n", args...) // a failure could not be reported
}

// printNote writes one line for people to the error output.
func (e *env) printNote(format string, args ...any) {
	_, _ = fmt.Fprintf(e.errOut, format+"\n", args...) // a failure could not be reported
}
