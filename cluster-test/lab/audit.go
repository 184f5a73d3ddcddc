package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
)

// Usage is the usage of a zone's hosts, by host name.
type Usage map[string]api.Resources

// Usage returns the usage of each host that is not unused.
func (z *Zone) Usage() Usage {
	z.T.Helper()
	u := Usage{}
	for _, h := range z.Hosts() {
		if len(h.Used) > 0 {
			u[h.Name] = h.Used
		}
	}
	return u
}

// Free returns the free memory of the zone's hosts.
func (z *Zone) Free() int64 {
	z.T.Helper()
	var sum int64
	for _, h := range z.Hosts() {
		inv := api.Inventory(h.Inventory[api.MemoryMB])
		sum += inv.Capacity() - h.Used[api.MemoryMB]
	}
	return sum
}

// placed is a live server or volume on a host of a zone.
type placed struct {
	id        api.InstanceID
	host      string
	resources api.Resources
}

// placed returns what is on the zone's own hosts, as shown to its operator.
func (z *Zone) placed() (out []placed) {
	for _, s := range z.Servers() {
		if s.Host != "" && s.Status != api.StatusDeleted {
			out = append(out, placed{s.ID, s.Host, s.Resources})
		}
	}
	for _, v := range z.Volumes() {
		if v.Host != "" && v.Status != api.VolumeDeleted {
			out = append(out, placed{v.ID, v.Host, api.Resources{v.Class: v.Size}})
		}
	}
	return out
}

// Owners returns the zone and host of each live instance and volume, by its id, as shown to the
// zones' own operators; it returns an error for one in two places.
func (w *World) Owners() (map[api.InstanceID]string, error) {
	at := map[api.InstanceID]string{}
	for _, z := range w.Zones {
		for _, p := range z.placed() {
			here := z.Name + "/" + p.host
			if there, twice := at[p.id]; twice {
				return nil, fmt.Errorf("instance %s is on %s and on %s", p.id, there, here)
			}
			at[p.id] = here
		}
	}
	return at, nil
}

// sharedUse returns the total usage of the zone's sharing providers.
func (z *Zone) sharedUse() (api.Resources, error) {
	sum := api.Resources{}
	err := z.Do(z.T.Context(), z.Token, func(ctx context.Context, c *client.Client) error {
		clear(sum)
		pools, err := c.Providers(ctx, client.ProviderQuery{Required: []string{api.TraitShares}})
		for _, p := range pools {
			u, e := c.ProviderUsages(ctx, p.ID)
			err = errors.Join(err, e)
			for class, n := range u.Usages {
				sum[class] += n
			}
		}
		return err
	})
	maps.DeleteFunc(sum, func(_ api.ResourceClass, n int64) bool { return n == 0 })
	return sum, err
}

// checkBooks returns an error unless the usage of each host is the sum of the live
// instances there, and the usage of sharing providers is the sum of the instances'
// resources in classes that their hosts do not have.
func (z *Zone) checkBooks() error {
	want, drawn := Usage{}, api.Resources{}
	has := map[string]map[api.ResourceClass]rest.Inventory{}
	for _, h := range z.Hosts() {
		has[h.Name] = h.Inventory
	}
	for _, p := range z.placed() {
		if want[p.host] == nil {
			want[p.host] = api.Resources{}
		}
		for c, n := range p.resources {
			if _, own := has[p.host][c]; own {
				want[p.host][c] += n
			} else {
				drawn[c] += n
			}
		}
	}
	pooled, err := z.sharedUse()
	if err != nil || !pooled.Equal(drawn) {
		return OrElse(err, "%s: taken of pools %v, by live instances %v", z.Name, pooled, drawn)
	}
	if got := z.Usage(); !maps.EqualFunc(got, want, api.Resources.Equal) {
		return fmt.Errorf("%s: used on hosts %v, by live instances %v", z.Name, got, want)
	}
	return nil
}

// Audit waits until every hold is decided, and then until the usage in each zone adds up;
// no instance may be, or have been, in two places. Every process of an instance must be
// known to exactly one zone.
func (w *World) Audit() {
	w.T.Helper()
	w.Lives()
	await.Until(w.T, "the books add up", func(context.Context) error {
		at, err := w.Owners()
		require.NoError(w.T, err)
		var errs []error
		for _, z := range w.Zones {
			errs = append(errs, z.checkBooks())
		}
		seen := map[string]bool{}
		running, err := instancesUnder(w.Dir)
		require.NoError(w.T, err)
		for _, i := range running {
			require.False(w.T, seen[i.ID], "instance %s runs twice", i.ID)
			seen[i.ID] = true
			if at[api.InstanceID(i.ID)] == "" {
				errs = append(errs, fmt.Errorf("instance %s runs and no zone has it", i.ID))
			}
		}
		return errors.Join(errs...)
	})
}

// Life is what the journals of all agents say of one instance.
type Life struct {
	Host api.HostID // where it was started last
	Ran  int        // how often it was started there
	Gone bool       // nothing is left of it

	fenced bool // it may be started elsewhere without a report of its host
	cut    bool // its fence has expired
	over   bool // it has ended or was stopped, and may be ordered to run again
}

// MayMove declares that an operator moves instances: from now on, an instance that is gone
// from one host may run on another.
func (w *World) MayMove() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moves = true
}

// Lives reads the journals of all agents, and fails the test for an instance that was
// started twice on any hosts, except after it was gone and has moved.
func (w *World) Lives() map[api.InstanceID]Life {
	w.T.Helper()
	out := map[api.InstanceID]Life{}
	w.mu.Lock()
	restored, moves := w.restored, w.moves
	w.mu.Unlock()
	var entries []entry
	for _, z := range w.Zones {
		for _, a := range z.Agents {
			entries = append(entries, a.readJournal()...)
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.At.Compare(b.At) })
	for _, e := range entries {
		l, err := out[e.Instance].afterEntry(e, restored, moves)
		require.NoError(w.T, err, "instance %s", e.Instance)
		out[e.Instance] = l
	}
	return out
}

// entry is one line of an agent's journal about an instance.
type entry struct {
	At       time.Time      `json:"at"`
	Detail   string         `json:"detail"`
	Event    string         `json:"event"`
	Host     api.HostID     `json:"host"`
	Instance api.InstanceID `json:"instance"`
}

// readJournal returns the entries of the agent's journal that are about instances.
func (a *AgentProc) readJournal() []entry {
	a.Zone.T.Helper()
	text, err := os.ReadFile(filepath.Join(a.Dir, "state", "journal"))
	require.NoError(a.Zone.T, err)
	var out []entry
	for line := range bytes.Lines(text) {
		var e entry
		if json.Unmarshal(line, &e) == nil && e.Instance != "" { // or it was cut off with its agent
			out = append(out, e)
		}
	}
	return out
}

// afterEntry returns the life of an instance after one more entry. An instance brought back
// by a backup runs again, and one that moves or had a fence may run elsewhere. A moving
// one may also start again where it is gone: it was sent on, and back before it was
// started there. One that has ended or was stopped runs again for an order of its owner. Lines of hosts that it has left are ignored.
func (l Life) afterEntry(e entry, restored, moves bool) (Life, error) {
	if e.Event == "absent" { // its agent was killed in the start, and finds nothing of it
		l.Gone = l.Gone || l.Host == e.Host
		return l, nil
	}
	starts := e.Event == "start" || e.Event == "running"
	back := l.Gone && (restored || moves && e.Event == "start")
	switch elsewhere := l.Host != "" && l.Host != e.Host; {
	case elsewhere && starts && !l.fenced && (!moves || !l.Gone):
		return l, fmt.Errorf("it was on two hosts, %s and %s", l.Host, e.Host)
	case elsewhere && !starts:
		return l, orNil(moves || l.fenced, "it was on two hosts, %s and %s", l.Host, e.Host)
	case elsewhere, starts && l.cut, starts && back:
		l = Life{fenced: l.fenced}
	}
	l.Host = e.Host
	switch e.Event {
	case "start":
		l.fenced = strings.HasPrefix(e.Detail, "fence ")
	case "running":
		l.Ran++
	case "fenced":
		l.cut = true
	case "ended", "halted":
		l.over = true
	case "ordered":
		if l.over {
			l.Ran, l.over = 0, false
		}
	case "gone":
		l.Gone = true
	}
	return l, orNil(l.Ran <= 1, "it was started twice")
}
