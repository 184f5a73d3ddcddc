package cli

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/backoff"
)

// outputEvery is the pause between two looks for new output.
const outputEvery = time.Second

const serverLogsHelp = `Print what a server has printed, as it is: its standard output, or with --stderr its
standard error. It may run in this zone or in any zone below.

What an earlier run on the same host has printed comes first; if its agent killed that run, a
line that begins with "--- berth:" follows.

Its host keeps the newest output only (64M of each unless its operator says otherwise), until
the server is deleted. --tail 0 prints all of that. With --follow the command waits for more,
until the server has ended or the command is interrupted.

On a terminal, characters that could control it are shown as "?".`

func serverLogs(e *env) *cobra.Command {
	var p outputPrinter
	var stderr, follow bool
	var tail uint64
	c := &cobra.Command{
		Use: "logs SERVER", Short: "Print what a server has printed", Long: serverLogsHelp,
		Example:           "  berth server logs web-1\n  berth server logs web-1 --stderr --tail 0\n  berth server logs web-1 --follow",
		Args:              exactArgs("a SERVER"),
		ValidArgsFunction: e.completeFirst(serverNames),
	}
	f := c.Flags()
	f.BoolVar(&stderr, "stderr", false, "its standard error in place of its standard output")
	f.Uint64Var(&tail, "tail", api.OutputTailDefault, "print the last `BYTES` of it; 0 for all that is kept")
	f.BoolVarP(&follow, "follow", "f", false, "wait for more")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		found, err := findServer(ctx, cl, args[0])
		if err != nil {
			return err
		}
		p = outputPrinter{e: e, client: cl, server: found.ID, name: args[0], stream: api.Stdout}
		if stderr {
			p.stream = api.Stderr
		}
		if err = p.printTail(ctx, tail); err == nil && follow {
			err = p.follow(ctx)
		}
		if err != nil {
			return addHint(nameSubject("server "+args[0], err), outputHints)
		}
		return nil
	})
	return c
}

// outputHints are for errors of a call that changes nothing.
var outputHints = map[api.Code]string{
	api.CodeConflict: "see the server with: berth server show SERVER",
	api.CodeTimeout:  "see whether its host and its zone are there with: berth server show SERVER",
}

// outputPrinter prints an output of a server piece by piece.
type outputPrinter struct {
	e      *env
	client *client.Client
	server api.InstanceID
	name   string
	stream api.OutputStream

	next uint64 // offset of what comes next
	rest []byte // the beginning of a character whose end is to come
}

// read reads a piece of the output.
func (p *outputPrinter) read(ctx context.Context, q client.OutputQuery) (out rest.Output, body []byte, err error) {
	q.Stream = p.stream
	out, err = p.client.ServerOutput(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), p.server, q)
	return out, body, err
}

// printTail prints the last bytes of what there is, or all of it.
func (p *outputPrinter) printTail(ctx context.Context, tail uint64) error {
	q := client.OutputQuery{Limit: api.OutputMaxBytes}
	switch {
	case tail == 0:
		q.After = &p.next
	case tail <= api.OutputMaxBytes:
		q.Limit = int(tail) //nolint:gosec // it is small
	default:
		newest, _, err := p.read(ctx, client.OutputQuery{Limit: 1})
		if err != nil {
			return err
		}
		p.next = newest.Total - min(newest.Total, tail)
		q.After = &p.next
	}
	out, body, err := p.read(ctx, q)
	if err != nil {
		return err
	}
	if out.Total == 0 {
		p.e.printNote("server %s has printed nothing to %s", stripControls(p.name), p.stream)
	}
	if err = p.print(out, body); err != nil {
		return err
	}
	for end := out.Total; p.next < end && len(out.Data) > 0; {
		if out, body, err = p.read(ctx, client.OutputQuery{After: &p.next, Limit: api.OutputMaxBytes}); err != nil {
			return err
		}
		if err = p.print(out, body); err != nil {
			return err
		}
	}
	return nil
}

// follow prints what is new until the server has ended.
func (p *outputPrinter) follow(ctx context.Context) error {
	lost := false // the last try was in vain
	for ended := false; ; {
		out, body, err := p.read(ctx, client.OutputQuery{After: &p.next, Limit: api.OutputMaxBytes})
		switch code := api.CodeOf(err); {
		case ctx.Err() != nil:
			return ctx.Err()
		case code == api.CodeNotFound: // it was deleted
			return nil
		case code == api.CodeTimeout, code == api.CodeUnavailable, code == api.CodeOverloaded:
			if !lost {
				p.e.printNote("waiting: %s", stripControls(api.MessageOf(err)))
			}
			lost = true
		case err != nil:
			return err
		case len(out.Data) > 0:
			lost = false
			if out.Offset > p.next {
				p.e.printNote("%d bytes are left out: they are not kept any more", out.Offset-p.next)
			}
			if err = p.print(out, body); err != nil {
				return err
			}
			continue
		case ended:
			return nil
		default:
			lost, p.next = false, out.Next
			if ended, err = p.hasEnded(ctx); err != nil {
				return err
			}
			if ended { // one more look, for its last words
				continue
			}
		}
		if !backoff.Sleep(ctx, outputEvery) {
			return ctx.Err()
		}
	}
}

// hasEnded reports whether the server prints nothing any more.
func (p *outputPrinter) hasEnded(ctx context.Context) (bool, error) {
	s, err := p.client.Server(ctx, p.server)
	switch {
	case api.CodeOf(err) == api.CodeNotFound:
		return true, nil
	case err != nil:
		return false, err
	}
	return s.Status == api.StatusShutoff || s.Status == api.StatusError || s.Status == api.StatusDeleted, nil
}

// print prints a piece: its bytes, or in the formats of answers the whole answer.
func (p *outputPrinter) print(out rest.Output, body []byte) error {
	p.next = out.Next
	if p.e.jq != "" || p.e.format == formatJSON || p.e.format == formatYAML {
		return p.e.printAnswer(body, nil)
	}
	if !p.e.outTTY {
		return p.e.writeOut(out.Data)
	}
	var clean []byte
	clean, p.rest = cleanOutput(append(p.rest, out.Data...))
	return p.e.writeOut(clean)
}

// cleanOutput returns text as a terminal may get it: what could control it, and what is not UTF-8, is "?". rest is the
// beginning of a character at the end of text.
func cleanOutput(text []byte) (clean, rest []byte) {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 && !utf8.FullRune(text) {
			return []byte(b.String()), append([]byte(nil), text...)
		}
		text = text[n:]
		if r == utf8.RuneError && n == 1 || r != '\n' && r != '\t' && api.IsHidden(r) {
			r = '?'
		}
		b.WriteRune(r)
	}
	return []byte(b.String()), nil
}
