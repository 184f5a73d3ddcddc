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

// The pace of following a boot.
const (
	watchStep = time.Second           // how long one call waits for the outcome, and so how often progress is shown
	watchGap  = 50 * time.Millisecond // between two calls, in case a zone does not wait
)

// patience holds the flags about waiting.
type patience struct {
	wait, noWait bool
	timeout      time.Duration
}

func (p *patience) addFlags(c *cobra.Command) {
	c.Flags().BoolVar(&p.wait, "wait", true, "wait for the outcome")
	c.Flags().BoolVar(&p.noWait, "no-wait", false, "return as soon as the zone has recorded it")
	c.Flags().DurationVar(&p.timeout, "timeout", time.Minute, "how long to wait; the request continues afterwards")
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

// whose holds the flag that selects the project of reservations.
type whose struct {
	project string
	all     bool // projects, in a list
}

func (w *whose) addFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.project, "project", "", "project, for admins (default: your own)")
}

// addListFlags adds the flags of a list of things.
func (w *whose) addListFlags(c *cobra.Command, things string) {
	w.addFlag(c)
	c.Flags().BoolVar(&w.all, "all-projects", false, things+" of all projects (admins)")
}

// checkFlags refuses flags that contradict each other.
func (w *whose) checkFlags(c *cobra.Command) error {
	if w.all && w.project != "" {
		return usageError(c, "give --project or --all-projects, not both")
	}
	return nil
}

// clientFor returns c for the reservations of the project.
func (w *whose) clientFor(c *client.Client) *client.Client {
	return c.InProject(api.ProjectID(w.project))
}

// argumentFor returns id as it is given to a verb on a command line.
func (w *whose) argumentFor(id api.ReservationID) string {
	if w.project == "" {
		return string(id)
	}
	return string(id) + " --project " + w.project
}

// followBoot reads a boot until done reports true, shows its progress, and returns it with
// the body of the last answer.
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
			return b, nil, exitError(exitTimeout, "it continues; check with: berth reservation show "+w.argumentFor(id),
				"reservation %s is %s after %s", id, orAsked(told.state), p.timeout)
		case errors.Is(err, context.Canceled):
			told.clearLine()
			return b, nil, withHint(err, "reservation "+string(id)+" continues; delete it with: berth reservation delete "+w.argumentFor(id))
		case err != nil:
			return b, nil, err
		}
		told.showBoot(b)
		if done(b.State) {
			return b, body, nil
		}
		backoff.Sleep(ctx, watchGap) // the next call sees the end of ctx
	}
}

func orAsked(s api.BootState) string {
	if s == "" {
		return "requested; its state is unknown"
	}
	return "still " + string(s)
}

// progress shows the progress of a boot: on a terminal as one line that is overwritten,
// elsewhere as one line for each state.
type progress struct {
	e     *env
	state api.BootState
	shown bool
}

// showBoot shows the state of b.
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

// clearLine removes the line that is overwritten.
func (p *progress) clearLine() {
	if p.shown {
		printText(p.e.errOut, "\r\x1b[K")
		p.shown = false
	}
}

// outcomeError returns the error for the final state of a boot, nil for ACTIVE.
func outcomeError(b rest.Boot) error {
	switch b.State {
	case api.BootDegraded:
		_, decided := showCounts(b.Instances)
		return exitError(exitPartly, fmt.Sprintf("see which with: berth server list --reservation %s --status ERROR", b.Reservation),
			"%d of %s of reservation %s failed; %d run", b.Instances[api.StatusError], countThings(int64(decided), "instance"), b.Reservation, b.Instances[api.StatusActive])
	case api.BootError:
		return exitError(exitNoneRuns, fmt.Sprintf("see why with: berth server list --reservation %[1]s; free their room with: berth reservation delete %[1]s", b.Reservation),
			"none of %s of reservation %s runs: all failed", countThings(int64(b.Instances[api.StatusError]), "instance"), b.Reservation)
	case api.BootFailed:
		exit, known := exitOf[cmp.Or(b.Code, api.ReasonCode(b.Reason))]
		if !known {
			exit = exitFailed
		}
		return exitError(exit, fmt.Sprintf("see why with: berth explain %s", b.Reservation),
			"reservation %s failed and nothing was started: %s", b.Reservation, orReason(b.Reason))
	case api.BootReleasing, api.BootReleased:
		return exitError(exitConflict, "", "reservation %s was deleted by another call", b.Reservation)
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
