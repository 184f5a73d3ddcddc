package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/raftstore"
)

// The exit codes. They are stable; "berth help exit-codes" lists them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitNoCapacity  = 5
	exitDenied      = 6
	exitTimeout     = 7
	exitPartly      = 8
	ExitBroken      = 9
	exitNoneRuns    = 10
	exitInterrupted = 130
)

// exits describes the exit codes, in order.
var exits = []struct {
	code int
	text string
}{
	{exitDone, "done"},
	{exitFailed, "any other failure, including a declined confirmation"},
	{exitUsage, "usage: the command line or the request is invalid"},
	{exitNotFound, "not found, or not visible to you"},
	{exitConflict, "conflict: it exists already, has changed, or cannot be used any more"},
	{exitNoCapacity, "no capacity: fewer instances than the minimum fit, and nothing was started"},
	{exitDenied, "not authenticated, or not allowed"},
	{exitTimeout, "timed out; the request may still complete, unless it is a boot that FAILED by its own timeout"},
	{exitPartly, "partly done: some instances failed (DEGRADED)"},
	{ExitBroken, "broken: the disk or the log of a node cannot be trusted; a running node exits with this code"},
	{exitNoneRuns, "none running: every instance was placed and failed (ERROR)"},
	{exitInterrupted, "interrupted"},
}

// exitOf maps the codes of errors to exit codes; all others are exitFailed.
var exitOf = map[api.Code]int{
	api.CodeInvalid:         exitUsage,
	api.CodeNotFound:        exitNotFound,
	api.CodeConflict:        exitConflict,
	api.CodeStale:           exitConflict,
	api.CodeExists:          exitConflict,
	api.CodeInUse:           exitConflict,
	api.CodeHasChildren:     exitConflict,
	api.CodePlanRefused:     exitConflict,
	api.CodeNoCapacity:      exitNoCapacity,
	api.CodeContended:       exitConflict,
	api.CodePaused:          exitConflict,
	api.CodeUnreached:       exitConflict,
	api.CodeUnauthenticated: exitDenied,
	api.CodeForbidden:       exitDenied,
	api.CodeOverQuota:       exitDenied,
	api.CodeTimeout:         exitTimeout,
}

// hints has the next step for each error code, unless the command has a better one.
var hints = map[api.Code]string{
	api.CodeInvalid:         "see the command's --help",
	api.CodeUnauthenticated: "give a token with BERTH_TOKEN or --token-file; see: berth help settings",
	api.CodeForbidden:       "the role of the token or a rule of the zone is against it; an operator can make another token with: berth token create",
	api.CodeOverQuota:       "ask for less or for later, or have an operator raise the limit",
	api.CodeNotFound:        "check the name with the list command; objects of other projects are not shown",
	api.CodeConflict:        "read it again, then decide",
	api.CodeStale:           "it has changed; read it again, then decide",
	api.CodeExists:          "use another name, or change the existing one",
	api.CodeInUse:           "delete the allocations from it first",
	api.CodeHasChildren:     "delete or move its children first",
	api.CodePlanRefused:     "make a new plan with: berth boot --plan --out FILE",
	api.CodeNoCapacity:      "see why with: berth explain RESERVATION",
	api.CodeContended:       "try again: undecided boots of others hold the room",
	api.CodePaused:          "resume the link with: berth zone resume NAME",
	api.CodeUnreached:       "try again: a zone that may have room did not answer",
	api.CodeOverloaded:      "try again in a moment",
	api.CodeUnavailable:     "try again in a moment; see whether the zone has a leader with: berth operator members",
	api.CodeTimeout:         "the request may still complete; check again, or repeat it with the same reservation id",
	api.CodeInternal:        "give the request id to the zone's operator",
}

// failure is an error with an exit code and a hint from the command line itself.
type failure struct {
	exit int
	hint string
	err  error
}

// Error returns the sentence.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// exitError returns an error with an exit code, a sentence and a hint.
func exitError(exit int, hint, format string, args ...any) error {
	return &failure{exit: exit, hint: hint, err: fmt.Errorf(format, args...)}
}

// usageError returns the error of a command line that is wrong.
func usageError(c *cobra.Command, format string, args ...any) error {
	return exitError(exitUsage, "see: "+c.CommandPath()+" --help", format, args...)
}

// withHint returns err with a hint in place of that of its code, and nil for nil.
func withHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &failure{exit: exitCode(err), hint: hint, err: err}
}

// addHint returns err with the hint for its code, if there is one.
func addHint(err error, by map[api.Code]string) error {
	if hint := by[api.CodeOf(err)]; hint != "" && err != nil {
		return withHint(err, hint)
	}
	return err
}

// RunLocally wraps run for a command on this machine: its errors go without the hints,
// which are about calls of a zone.
func RunLocally(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error { return localError(run(c, args)) }
}

// localError returns err without a hint, unless the command gave one. Damage has its own
// exit code, and its text includes the next step.
func localError(err error) error {
	_, told := errors.AsType[*failure](err)
	switch {
	case err == nil, told:
		return err
	case errors.Is(err, raftstore.ErrDamaged):
		return &failure{exit: ExitBroken, err: err}
	}
	return withHint(err, "")
}

// nameSubject returns err prefixed with the name of its subject.
func nameSubject(name string, err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if _, told := errors.AsType[*failure](err); told || !ok {
		return fmt.Errorf("%s: %w", name, err)
	}
	named := *e
	named.Msg = name + ": " + api.MessageOf(e)
	return &named
}

// exitCode returns the exit code for err.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.exit
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return cmp.Or(exitOf[e.Code], exitFailed)
	}
	return exitFailed
}

// ReportError writes err to w, one line and a hint, and returns the exit code.
func ReportError(w io.Writer, err error) int {
	code := exitCode(err)
	if code == exitDone {
		return code
	}
	sentence, hint := err.Error(), ""
	if e, ok := errors.AsType[*api.Error](err); ok {
		sentence, hint = sentenceOf(e), cmp.Or(hintOfCall(e), hints[e.Code])
		if e.Code == api.CodeInternal && client.RequestIDOf(e) == "" {
			hint = "" // there is no request id to give
		}
	}
	if code == exitInterrupted {
		sentence, hint = "interrupted", ""
	}
	if f, ok := errors.AsType[*failure](err); ok {
		hint = f.hint
	}
	printText(w, "berth: %s\n", stripControls(strings.ReplaceAll(strings.TrimSpace(sentence), "\n", "; ")))
	if hint != "" {
		printText(w, "  hint: %s\n", stripControls(hint))
	}
	return code
}

// hintOfCall returns the next step for a call that has not reached a zone, "" for another.
func hintOfCall(err error) string {
	invalid, _ := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case client.Untrusted(err) && invalid.Reason == x509.Expired:
		return "compare the clock of this machine with that of the node; if both are right, the node was stopped until its certificate had ended: call another one"
	case client.Misnamed(err):
		return "call the zone by a name in the certificate with --addr; its operator adds others with: berth node --api-name"
	case client.Untrusted(err):
		return "name the certificate of the zone's CA with --cacert or BERTH_CACERT: berth init writes it to ca.pem; after a change of the authority, its operator prints the new one with: berth operator ca show; " +
			"if the zone shows a certificate of another CA, name that one, or none for a public CA"
	case client.WrongScheme(err):
		return "check whether --addr, or BERTH_ADDR, must begin with https:// or with http://"
	case client.Unheard(err):
		return "check the address, and whether the node runs; give several nodes with commas, and the next one is called: --addr A,B"
	}
	return ""
}

// sentenceOf returns the sentence of e with its code and request id.
func sentenceOf(e *api.Error) string {
	id := client.RequestIDOf(e)
	if id == "" {
		return fmt.Sprintf("%s (%s)", cmp.Or(e.Msg, string(e.Code)), e.Code)
	}
	return fmt.Sprintf("%s (%s, request %s)", inFlags(api.MessageOf(e)), e.Code, id)
}

// exitCodesHelp returns the page of help on exit codes.
func exitCodesHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes of every command. They do not change.\n\n")
	for _, x := range exits {
		fmt.Fprintf(&b, "  %3d  %s\n", x.code, x.text)
	}
	return b.String()
}
