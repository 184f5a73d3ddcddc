package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/backoff"
)

// How a boot is followed.
const (
	watchStep = time.Second           // how long one look waits for the outcome, and so how often progress is told
	watchGap  = 50 * time.Millisecond // between two looks, should a zone not wait
)

// patience is what the flags say about waiting.
type patience struct {
	wait, noWait bool
	timeout      time.Duration
}

func (p *patience) addFlags(c *cobra.Command) {
	c.Flags().BoolVar(&p.wait, "wait", true, "wait for the outcome")
	c.Flags().BoolVar(&p.noWait, "no-wait", false, "return as soon as the zone has recorded it")
	c.Flags().DurationVar(&p.timeout, "timeout", time.Minute, "how long to wait; what was asked for goes on")
}

// checkFlags refuses flags that contradict each other.
func (p *patience) checkFlags(c *cobra.Command) error {
	if c.Flags().Changed("wait") && p.wait && p.noWait {
		return usageError(c, "give --wait or --no-wait, not both")
	}
	if p.timeout <= 0 {
		return usageError(c, "--timeout must be more than 0s, got %s", p.timeout)
	}
	return nil
}

func (p *patience) isWaiting() bool { return p.wait && !p.noWait }

// whose is what the flags say about whose reservations are meant.
type whose struct{ project string }

func (w *whose) addFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.project, "project", "", "project of the reservations, for admins (default: your own)")
}

// clientFor returns c for the reservations that are meant.
func (w *whose) clientFor(c *client.Client) *client.Client {
	return c.InProject(api.ProjectID(w.project))
}

// argumentFor returns id as a verb takes it on a command line.
func (w *whose) argumentFor(id api.ReservationID) string {
	if w.project == "" {
		return string(id)
	}
	return string(id) + " --project " + w.project
}

// followBoot looks at a boot until done says so, tells its progress, and returns it
// with the body of the last answer.
func (e *env) followBoot(
	ctx context.Context, c *client.Client, w whose, id api.ReservationID, p patience, done func(api.BootState) bool,
) (rest.Boot, []byte, error) {
	var body []byte
	c = w.clientFor(c)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	told := progress{e: e}
	defer told.clearLine()
	for {
		b, err := c.Reservation(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), id, watchStep)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
			told.clearLine()
			return b, nil, exitError(exitTimeout, "it goes on; look again with: berth reservation show "+w.argumentFor(id),
				"reservation %s is %s after %s", id, orAsked(told.state), p.timeout)
		case errors.Is(err, context.Canceled):
			told.clearLine()
			return b, nil, withHint(err, "reservation "+string(id)+" goes on; give it back with: berth reservation delete "+w.argumentFor(id))
		case err != nil:
			return b, nil, err
		}
		told.showBoot(b)
		if done(b.State) {
			return b, body, nil
		}
		backoff.Sleep(ctx, watchGap) // the next look says how it ended
	}
}

func orAsked(s api.BootState) string {
	if s == "" {
		return "asked for, and not more is known,"
	}
	return "still " + string(s)
}

// progress tells how a boot goes: on a terminal one line that is written over,
// elsewhere one line for each state.
type progress struct {
	e     *env
	state api.BootState
	shown bool
}

// showBoot tells b.
func (p *progress) showBoot(b rest.Boot) {
	_, decided := showCounts(b.Instances)
	line := fmt.Sprintf("%s %s", b.Reservation, b.State)
	if decided > 0 {
		line += fmt.Sprintf(" %d of %d active", b.Instances[api.StatusActive], decided)
	}
	switch {
	case p.e.errTTY:
		printText(p.e.errOut, "\r\x1b[K%s", stripControls(line))
		p.shown = true
	case b.State != p.state:
		printText(p.e.errOut, "%s\n", stripControls(line))
	}
	p.state = b.State
}

// clearLine removes the line that is written over.
func (p *progress) clearLine() {
	if p.shown {
		printText(p.e.errOut, "\r\x1b[K")
		p.shown = false
	}
}

// outcomeError returns what the end of a boot means for its caller.
func outcomeError(b rest.Boot) error {
	switch b.State {
	case api.BootDegraded:
		_, decided := showCounts(b.Instances)
		return exitError(exitPartly, fmt.Sprintf("see which with: berth server list --reservation %s --status ERROR", b.Reservation),
			"%d of %s of reservation %s failed; %d run", b.Instances[api.StatusError], countThings(int64(decided), "instance"), b.Reservation, b.Instances[api.StatusActive])
	case api.BootError:
		return exitError(exitNoneRuns, fmt.Sprintf("see why with: berth server list --reservation %[1]s; give their room back with: berth reservation delete %[1]s", b.Reservation),
			"none of %s of reservation %s runs: all failed", countThings(int64(b.Instances[api.StatusError]), "instance"), b.Reservation)
	case api.BootFailed:
		exit, known := exitOf[cmp.Or(b.Code, api.ReasonCode(b.Reason))]
		if !known {
			exit = exitFailed
		}
		return exitError(exit, fmt.Sprintf("see why with: berth explain %s", b.Reservation),
			"reservation %s failed and nothing was started: %s", b.Reservation, orReason(b.Reason))
	case api.BootReleasing, api.BootReleased:
		return exitError(exitConflict, "", "reservation %s was given back meanwhile", b.Reservation)
	case api.BootAccepted, api.BootHolding, api.BootBuilding, api.BootActive:
	}
	return nil
}

func orReason(s string) string {
	if s == "" {
		return "fewer instances than the minimum could be held"
	}
	return s
}
