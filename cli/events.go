package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

const eventsHelp = `Print the events of the project, oldest first: what the zone has changed. An admin
without --project sees those of all projects, of hosts and of linked zones.

A zone keeps events for a day, and at most 20,000. With --follow the command waits for
more until it is interrupted. It goes on at the same node, or at one of --node, when a
node ends; nothing is missed or shown twice, and a line of kind gap says where the zone
does not keep some events any more. --after goes on behind an event that was seen before.

With -o json each event is one line.`

func eventsCommand(e *env) *cobra.Command {
	var w whose
	var q client.EventsQuery
	var reservation, lease, server string
	c := &cobra.Command{
		Use: "events", Short: "Show what has changed, and follow it", Long: eventsHelp, Args: exactArgs(),
		Example: "  berth events --kind boot\n  berth events --follow --after now --kind instance.error -o json\n  berth events --server 0b54c7e2-7a0f-4d8e-9f0e-1f2d3c4b5a69",
	}
	w.addFlag(c)
	c.Flags().Lookup("project").Usage = "project of the events, for admins (default: all of them, or your own)"
	f := c.Flags()
	f.BoolVarP(&q.Follow, "follow", "f", false, "wait for more")
	f.StringVar(&q.After, "after", "", "`ID` of an event to go on behind, or now")
	f.StringSliceVar(&q.Kinds, "kind", nil, "`KIND` of events to show, or the beginning of some such as boot; may be repeated (default: all)")
	f.StringVar(&reservation, "reservation", "", "only events of this `RESERVATION`")
	f.StringVar(&lease, "lease", "", "only events of this `LEASE`, by its id")
	f.StringVar(&server, "server", "", "only events of this `SERVER`, by its id: its history of a day, with its moves (build after active) and faults")
	f.StringSliceVar(&q.Nodes, "node", nil, "`ADDRESS` of another node of the zone to go on at; may be repeated")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		q.Reservation, q.Lease, q.Server = api.ReservationID(reservation), api.LeaseID(lease), api.InstanceID(server)
		return e.printEvents(ctx, w.clientFor(cl), q)
	})
	return c
}

// eventLine is the format of a line of the table. Lines are printed as they come, so the
// columns cannot fit what comes later.
const eventLine = "%-14s  %-24s  %-18s  %-16s  %-20s  %s"

// printEvents prints events as they come.
func (e *env) printEvents(ctx context.Context, c *client.Client, q client.EventsQuery) error {
	if e.format == formatTable && !e.noHeaders {
		if err := e.writeLine(fmt.Sprintf(eventLine, "ID", "AT", "KIND", "PROJECT", "RESERVATION", "WHAT")); err != nil {
			return err
		}
	}
	for event, err := range c.Events(ctx, q) {
		if err != nil {
			return err
		}
		if err := e.printEvent(&event); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) printEvent(event *rest.Event) error {
	if e.format == formatTable {
		return e.writeLine(fmt.Sprintf(eventLine, event.ID, showInstant(event.At), event.Kind,
			cmp.Or(string(event.Project), "-"), cmp.Or(string(event.Reservation), "-"), aboutEvent(event)))
	}
	body, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("printing event %s: %w", event.ID, err)
	}
	if e.format == formatJSON {
		return e.writeLine(string(body))
	}
	if err := e.writeLine("---"); err != nil {
		return err
	}
	return e.printAnswer(body, nil)
}

// writeLine writes one line of text.
func (e *env) writeLine(line string) error {
	return e.writeOut(append(bytes.TrimRight([]byte(stripControls(line)), " "), '\n'))
}

// aboutEvent returns what an event is about besides its reservation.
func aboutEvent(event *rest.Event) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	add("server", string(event.Server))
	add("lease", string(event.LeaseID))
	add("hold", string(event.Hold))
	add("host", event.Host)
	add("zone", event.Zone)
	add("origin", event.Origin)
	switch {
	case event.Was != "":
		parts = append(parts, event.Was+" -> "+event.Is)
	case event.Is != "":
		parts = append(parts, event.Is)
	}
	add("code", string(event.Code))
	add("fault", event.Fault)
	add("reason", string(event.Reason))
	if v := event.Eviction; v != nil {
		parts = append(parts, fmt.Sprintf("leaves for %s by %s", shownCause(v), showInstant(v.Deadline)))
	}
	if event.Gap != nil {
		parts = append(parts, fmt.Sprintf("events after %s are missing: %s", event.Gap.After, event.Gap.Reason))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}
