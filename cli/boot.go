package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

const bootHelp = `Boot instances and wait until they run. All of them are started, or none; with
--min, at least that many. Progress goes to standard error, the boot and a table by
zone to standard output.

A --query is a list: an operator, then values, lists of the same kind, and variables:
$free_ram_mb, $free_disk_gb, $vcpus_free, $ram_mb_total, $disk_gb_total, $vcpus_total,
$instances, $free.CLASS, $total.CLASS, and $attributes.NAME or $NAME for an attribute.

To boot several kinds of instances at once, give --group-of for each, or --groups with
a file such as

  groups:
    - {name: web, flavorRef: small, max_count: 3, min_count: 2}
    - {name: db, flavorRef: big, traits: {required: [CUSTOM_SSD]}}
  rules:
    - {policy: anti-affinity, groups: [web]}
  zones: {min_zones: 2}

Either all groups get at least their minimum, or nothing is started.

With --plan nothing is booted: the output shows where the instances would be and at
what cost, or why they do not fit and what would work. A cost is what one instance costs more
than in the cheapest zone, as the memory that it is worth (see "berth help zone set"); -o wide
has the points, and what was turned away of a plan for all. With --out the plan is saved;
until it expires, "berth boot --apply" boots exactly that plan, or fails. Repeating
the same --apply returns the same boot.`

const bootExamples = `  berth boot --flavor small --name web --count 400
  berth boot --flavor small --name batch --count 100 --min 60 --timeout 5m
  berth boot --flavor small --name web --count 4 --az az1 --trait CUSTOM_SSD --trait '!CUSTOM_OLD' --spread-zones 1
  berth boot --flavor small --name web-b --different-host 6f0f0d8c-6e8a-4c39-9d6b-0f6f5e0f7a11
  berth boot --name shop --group-of web:small:3:2 --group-of db:big
  berth boot --name shop --groups shop.yaml --lifetime 2h
  berth boot --flavor small --name web --reservation-id web-1 --no-wait
  berth boot --within nightly --name night --count 3
  berth boot --flavor small --name batch --count 50 --min 1 --preemptible --on-preempt requeue --lifetime 2h
  berth boot --flavor small --name web --count 4 --plan --out plan.json && berth boot --apply plan.json`

func bootCommand(e *env) *cobra.Command {
	var w wish
	var p patience
	var plan bool
	var out, apply string
	c := &cobra.Command{
		Use: "boot --flavor FLAVOR --name NAME", Short: "Boot instances, in whichever zones have room",
		Long: bootHelp, Example: bootExamples, Args: exactArgs(),
	}
	w.addFlags(e, c)
	p.addFlags(c)
	c.Flags().BoolVar(&plan, "plan", false, "boot nothing; show where the instances would be, and at what cost")
	c.Flags().StringVar(&out, "out", "", "`FILE` to save the plan in; goes with --plan")
	c.Flags().StringVar(&apply, "apply", "", "`FILE` with a saved plan to boot, in place of all flags about the instances")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		switch {
		case plan && apply != "":
			return usageError(c, "give --plan or --apply, not both")
		case out != "" && !plan:
			return usageError(c, "--out goes with --plan")
		}
		if err := p.checkFlags(c); err != nil {
			return err
		}
		if w.hosts.within != "" {
			id, err := findReservation(ctx, cl, w.hosts.within, w.flavor != "")
			if err != nil {
				return err
			}
			w.hosts.within = string(id)
		}
		if plan {
			s, err := w.serverCreate(e, c)
			if err != nil {
				return err
			}
			return e.dryRun(ctx, cl, s, out)
		}
		ctx, stop := context.WithTimeout(ctx, p.timeout)
		defer stop()
		return e.bootAndFollow(ctx, cl, c, &w, apply, p)
	})
	return c
}

// bootAndFollow starts the boot that the flags or the plan in the file apply describe, and
// follows it.
func (e *env) bootAndFollow(ctx context.Context, cl *client.Client, c *cobra.Command, w *wish, apply string, p patience) error {
	id, body, err := e.askForBoot(ctx, cl, c, w, apply)
	if err != nil {
		return err
	}
	if !p.isWaiting() {
		return e.printAnswer(body, func() []table {
			t := table{header: []string{"RESERVATION"}}
			t.addRow(id)
			return []table{t}
		})
	}
	b, body, err := e.followBoot(ctx, cl, whose{}, id, p, api.BootState.Outcome)
	if err != nil {
		return err
	}
	if err := e.printAnswer(body, func() []table { return bootTables(b) }); err != nil {
		return err
	}
	return outcomeError(b)
}

// askForBoot starts the boot that the flags or the plan describe, and returns its
// reservation id and the answer.
func (e *env) askForBoot(ctx context.Context, cl *client.Client, c *cobra.Command, w *wish, apply string) (api.ReservationID, []byte, error) {
	var body []byte
	ctx = client.WithAnswer(ctx, func(a client.Answer) { body = a.Body })
	if apply != "" {
		answered := e.noteWaiting()
		id, err := e.applyPlan(ctx, cl, c, apply)
		answered()
		return id, body, e.hintRepeat(err, repeatable{})
	}
	s, err := w.serverCreate(e, c)
	if err != nil {
		return "", nil, err
	}
	if s.Reservation == "" { // chosen here, so that the caller can repeat the boot without its answer
		s.Reservation = string(api.NewReservationID())
	}
	named := repeatable{name: "reservation " + s.Reservation, set: [][2]string{{"--reservation-id", s.Reservation}}}
	answered := e.noteWaitingFor(named.name)
	id, err := cl.Boot(ctx, s, "")
	answered()
	return id, body, e.hintRepeat(err, named)
}

// showUnreachable marks a status that is the last known one for some instances.
func showUnreachable(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d unreachable)", n)
}

// bootTables shows a boot, and how many of its instances are in which zone.
func bootTables(b rest.Boot) []table {
	var t table
	t.addRow("RESERVATION", b.Reservation)
	t.addRow("NAME", b.Name)
	t.addRow("STATE", b.State)
	if b.Reason != "" {
		t.addRow("REASON", b.Reason)
	}
	if len(b.Groups) == 0 {
		t.addRow("FLAVOR", b.Flavor)
	}
	t.addRow("INSTANCES", fmt.Sprintf("%d of %d wanted, at least %d", b.Instances[api.StatusActive], b.MaxCount, b.MinCount))
	if q := b.Cut; q != nil {
		t.addRow("QUOTA", fmt.Sprintf("%d were asked for; the quota %s allowed %d", q.Asked, q.Item, b.MaxCount))
	}
	if text, decided := showCounts(b.Instances); decided > 0 {
		t.addRow("STATUS", text)
	}
	if b.Unreachable > 0 {
		t.addRow("UNREACHABLE", fmt.Sprintf("%d instances; what is shown of them is the last that is known", b.Unreachable))
	}
	if n := len(b.Waits); n == 1 {
		t.addRow("WAITS FOR", "zone "+b.Waits[0]+" to confirm")
	} else if n > 1 {
		t.addRow("WAITS FOR", "zones "+strings.Join(b.Waits, ", ")+" to confirm")
	}
	t.addRow("ATTEMPTS", len(b.Attempts))
	addPreemptTerms(&t, b.PreemptTerms)
	if q := b.Queued; q != nil {
		t.addRow("WAITING", fmt.Sprintf("%d preempted since %s; tries without room: %d", q.Count, showInstant(q.Since), q.Tries))
	}
	if b.Request != "" {
		t.addRow("REQUEST", b.Request)
	}
	if b.Ends != 0 {
		t.addRow("ENDS", showInstant(b.Ends))
	}
	t.addRow("CREATED", showInstant(b.Created))
	t.addRow("UPDATED", showInstant(b.Updated))
	tables := []table{t}
	if len(b.Groups) > 0 {
		groups := table{header: []string{"GROUP", "FLAVOR", "WANTED", "AT LEAST", "ACTIVE", "STATUS"}}
		for _, g := range b.Groups {
			text, _ := showCounts(g.Counts)
			groups.addRow(g.Name, g.Flavor, g.MaxCount, g.MinCount, g.Counts[api.StatusActive], text)
		}
		tables = append(tables, groups)
	}
	if len(b.Zones) == 0 {
		return tables
	}
	zones := table{header: []string{"ZONE", "ACTIVE", "STATUS"}}
	for _, z := range b.Zones {
		text, _ := showCounts(z.Counts)
		zones.addRow(z.Zone, z.Counts[api.StatusActive], text+showUnreachable(z.Unreachable))
	}
	return append(tables, zones)
}
