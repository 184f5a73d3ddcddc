package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/backoff"
)

const (
	powerGap     = 200 * time.Millisecond // between two looks at a server that is being stopped or started
	ordersAtOnce = 8                      // orders that are given at the same time
)

// powerVerb is one order as a verb.
type powerVerb struct {
	order               api.PowerOrder
	short, long, sample string
}

var powerVerbs = []powerVerb{
	{
		api.PowerStop, "Stop servers, which keep their room", `Stop servers, by id or name, at any zone above them. Each is asked to end, and is SHUTOFF then. It
keeps its room, its files and its volumes, and counts against quotas, until it is started again
or deleted. A stopped server stays so when its host restarts, or when it moves to another one.`,
		"  berth server stop web-1\n  berth server stop web-1 web-2 --no-wait",
	},
	{
		api.PowerStart, "Start servers that were stopped or have ended", `Start servers, by id or name, that were stopped, have ended by themselves or are in ERROR. One that
runs is left alone.`,
		"  berth server start web-1",
	},
	{
		api.PowerRestart, "Restart servers, also those in ERROR", `Restart servers, by id or name: each is asked to end, if it runs, and is started again on its host,
with its files and volumes. That is also how a server of a reservation that is in ERROR is brought
back.`,
		"  berth server restart web-1\n  berth server restart web-1 web-2 --timeout 5m",
	},
}

func serverPower(e *env) []*cobra.Command {
	var out []*cobra.Command
	for _, v := range powerVerbs {
		var p patience
		c := &cobra.Command{
			Use: string(v.order) + " SERVER...", Short: v.short, Long: v.long, Example: v.sample,
			ValidArgsFunction: e.completeFirst(serverNames),
		}
		p.addFlags(c)
		c.Args = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(c, "%q needs a SERVER", c.CommandPath())
			}
			return nil
		}
		c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
			if err := p.checkFlags(c); err != nil {
				return err
			}
			ctx, stop := context.WithTimeout(ctx, p.timeout)
			defer stop()
			all, err := findOrdered(ctx, cl, args)
			if err != nil {
				return err
			}
			return e.orderServers(ctx, cl, v.order, p, all)
		})
		out = append(out, c)
	}
	return out
}

// ordered is a server that was given an order, as it was seen last.
type ordered struct {
	server rest.Server
	raw    json.RawMessage
	ref    string
}

// look makes a call that is answered with a server.
func (o *ordered) look(ctx context.Context, call func(context.Context) (rest.Server, error)) (err error) {
	var body []byte
	if o.server, err = call(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body })); err != nil {
		return err
	}
	var one struct{ Server json.RawMessage }
	if err := json.Unmarshal(body, &one); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	o.raw = one.Server
	return nil
}

// findOrdered returns the servers with ids or names, which are to be given an order.
func findOrdered(ctx context.Context, cl *client.Client, refs []string) ([]ordered, error) {
	all := make([]ordered, len(refs))
	for n, ref := range refs {
		found, err := findServer(ctx, cl, ref)
		if err != nil {
			return nil, nameSubject("server "+ref, err)
		}
		all[n] = ordered{server: found, ref: ref}
	}
	return all, nil
}

// orderServers gives all servers an order, then waits until it is carried out, and shows them.
func (e *env) orderServers(ctx context.Context, cl *client.Client, order api.PowerOrder, p patience, all []ordered) error {
	answered := e.noteWaiting()
	err := giveOrders(ctx, cl, order, all)
	answered()
	if err != nil {
		return err
	}
	if p.isWaiting() {
		for n := range all {
			if err := awaitOrder(ctx, cl, order, &all[n], p.timeout); err != nil {
				return err
			}
		}
	}
	return e.showOrdered(all, order, p.isWaiting())
}

// giveOrders gives all servers an order, some at a time, and returns the first refusal. After one no
// further ones are given.
func giveOrders(ctx context.Context, cl *client.Client, order api.PowerOrder, all []ordered) error {
	var wg sync.WaitGroup
	slots, refusals := make(chan struct{}, ordersAtOnce), make([]error, len(all))
	var refused atomic.Bool
	for n := range all {
		slots <- struct{}{}
		if refused.Load() {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			o := &all[n]
			err := o.look(ctx, func(ctx context.Context) (rest.Server, error) { return cl.OrderServer(ctx, o.server.ID, order) })
			if err != nil {
				refused.Store(true)
				refusals[n] = nameSubject("server "+o.ref, err)
			}
		})
	}
	wg.Wait()
	return cmp.Or(refusals...)
}

// awaitOrder waits until a server is as an order wants it, or cannot be.
func awaitOrder(ctx context.Context, cl *client.Client, order api.PowerOrder, o *ordered, limit time.Duration) error {
	for !isCarriedOut(order, o.server.Status) {
		backoff.Sleep(ctx, powerGap) // the next call sees the end of ctx
		err := o.look(ctx, func(ctx context.Context) (rest.Server, error) { return cl.Server(ctx, o.server.ID) })
		if errors.Is(err, context.DeadlineExceeded) {
			return exitError(exitTimeout, "it continues; check with: berth server show "+string(o.server.ID),
				"server %s is still %s %s after the order to %s", o.ref, o.server.Status, limit, order)
		}
		if err != nil {
			return nameSubject("server "+o.ref, err)
		}
	}
	return nil
}

// isCarriedOut reports whether nothing more comes of an order to a server with a status.
func isCarriedOut(order api.PowerOrder, is api.Status) bool {
	switch is {
	case api.StatusBuild:
		return false
	case api.StatusActive:
		return order != api.PowerStop
	case api.StatusShutoff, api.StatusError, api.StatusDeleting, api.StatusDeleted:
	}
	return true
}

// showOrdered prints servers after an order, and fails if one should run and is in ERROR.
func (e *env) showOrdered(all []ordered, order api.PowerOrder, waited bool) error {
	servers := make([]rest.Server, len(all))
	raws := make([]json.RawMessage, len(all))
	var failed []string
	for n := range all {
		servers[n], raws[n] = all[n].server, all[n].raw
		if waited && order != api.PowerStop && servers[n].Status == api.StatusError {
			failed = append(failed, fmt.Sprintf("server %s: %s", all[n].ref, servers[n].Fault))
		}
	}
	body, err := json.Marshal(map[string]any{"servers": raws})
	if err == nil {
		err = e.printAnswer(body, func() []table { return serverRows(false)(servers) })
	}
	if err != nil || len(failed) == 0 {
		return err
	}
	return exitError(exitNoneRuns, "its host says why; try again with: berth server restart", "%s", strings.Join(failed, "; "))
}
