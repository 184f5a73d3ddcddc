package leases

import (
	"cmp"
	"context"
	"crypto/sha256"
	"time"

	"berth/api"
	"berth/internal/codec"
	"berth/lease/recur"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// CreateSeries makes a lease for every time of a rule, the first of them with the window of
// terms. It waits until all of them have all their room or the series is refused; a refused
// one leaves nothing behind. A repeat with the same key, unless it is "", returns the first
// series.
func (l *Leases) CreateSeries(ctx context.Context, who api.Caller, terms api.LeaseTerms, repeat api.Repeat, key string) (api.SeriesID, error) {
	if key != "" && !api.ValidName(key) {
		return "", api.CheckName(api.HeaderIdempotencyKey, key)
	}
	terms.Project, terms.User = who.Project, who.User
	body, err := codec.Marshal(&struct {
		Terms  api.LeaseTerms `cbor:"1,keyasint"`
		Repeat api.Repeat     `cbor:"2,keyasint"`
	}{terms, repeat})
	if err != nil {
		return "", api.Wrap(api.CodeInternal, "leases.CreateSeries", "", err)
	}
	digest := sha256.Sum256(body)
	stamp := l.zone.Stamp()
	windows, err := l.windowsOf(&terms, &repeat, stamp.At)
	if err != nil {
		return "", err
	}
	c := command.SeriesCreate{
		Stamp: stamp, ID: api.SeriesID(api.NewUUID()), Name: terms.Name, Project: terms.Project, User: terms.User, Repeat: repeat, Key: key, Digest: digest[:],
	}
	for _, w := range windows {
		one := terms
		one.Window, one.Series = w, c.ID
		if terms.BeforeEnd != 0 { // as far from the end as in the first
			one.BeforeEnd = max(w.Start, w.End-(terms.Window.End-terms.BeforeEnd))
		}
		lease, refused := l.leaseOf(who, one, stamp)
		if refused != nil {
			return "", api.Errorf(api.CodeOf(refused), "the lease of %s: %s", describeWindow(w), api.MessageOf(refused))
		}
		c.Leases = append(c.Leases, *lease)
	}
	if err = cmp.Or(l.zone.CheckSize(), l.checkSeries(ctx, who, &c)); err != nil {
		return "", err
	}
	for i := range c.Leases {
		if err = l.vacateHosts(ctx, &c.Leases[i].Terms); err != nil {
			return "", err
		}
	}
	res, err := l.zone.Propose(ctx, c)
	if err != nil {
		return "", err
	}
	if res.Series == nil { // decided within the entry
		return "", refusalOfSeries(l.zone.View(), &c)
	}
	if res.Series.ID != c.ID { // a repeat
		return res.Series.ID, l.waitSeries(ctx, res.Series.ID, nil)
	}
	return c.ID, l.waitSeries(ctx, c.ID, &c)
}

// windowsOf returns the windows of the leases of a series.
func (l *Leases) windowsOf(terms *api.LeaseTerms, repeat *api.Repeat, now api.Instant) ([]api.Window, error) {
	rule, err := recur.Parse(repeat.Rule)
	if err != nil {
		return nil, err
	}
	if repeat.TimeZone == "" || repeat.TimeZone == time.Local.String() {
		return nil, api.Errorf(api.CodeInvalid, "a series of leases needs the name of a time zone, such as Europe/Berlin or UTC")
	}
	loc, err := time.LoadLocation(repeat.TimeZone)
	if err != nil {
		return nil, api.Errorf(api.CodeInvalid, "there is no time zone %q: give one of the IANA database, such as Europe/Berlin or UTC", repeat.TimeZone)
	}
	lead := l.limits().Lead
	if lead <= 0 || lead > api.LeaseLeadMax {
		lead = api.LeaseLeadMax
	}
	windows, err := rule.Expand(terms.Window, loc, now.Add(lead))
	if err != nil {
		return nil, err
	}
	slots := 0
	for i := range terms.Reservations {
		slots += terms.Reservations[i].Max
	}
	if n := slots * len(windows); n > api.SeriesSlotsMax {
		return nil, api.Errorf(api.CodeInvalid, "a series of leases may have at most %d hosts and instances in all, got %d times %d", api.SeriesSlotsMax, len(windows), slots)
	}
	repeat.Rule = rule.String()
	return windows, nil
}

// waitSeries waits until a series is decided, and returns why it failed.
func (l *Leases) waitSeries(ctx context.Context, id api.SeriesID, c *command.SeriesCreate) error {
	ctx, cancel := context.WithTimeout(ctx, decideMax)
	defer cancel()
	v, err := l.zone.Store().WaitFor(ctx, state.SeriesTopic(id), func(v *state.State) bool {
		now, ok := v.OneSeries(id)
		return !ok || now.Status != api.SeriesCreating
	})
	if err != nil {
		return api.Wrap(api.CodeTimeout, "leases.wait", "the series of leases is not decided yet; look at it again later", err)
	}
	if now, ok := v.OneSeries(id); ok && now.Status == api.SeriesReady {
		return nil
	}
	return refusalOfSeries(v, c)
}

// refusalOfSeries returns why a series failed: the refusal of the first lease that did. c is
// nil if another call made it.
func refusalOfSeries(v *state.State, c *command.SeriesCreate) error {
	if c == nil {
		return api.Errorf(api.CodeConflict, "the series of leases could not be made; ask again with another key to learn why")
	}
	gone := api.Errorf(api.CodeConflict, "the series of leases was deleted meanwhile")
	for i := range c.Leases {
		one := &c.Leases[i]
		if one.Order == nil { // nor has any other one room
			return gone
		}
		if b, ok := v.Boot(c.Project, one.Order.Request.Reservation); ok && b.Decision == api.DecisionAbort && !b.Ended {
			err := refusal(v, c.Project, b.Request.Reservation)
			return api.Errorf(api.CodeOf(err), "the lease of %s, %d of %d: %s", describeWindow(one.Terms.Window), i+1, len(c.Leases), api.MessageOf(err))
		}
	}
	return gone
}

// describeWindow says when a lease of a series takes place.
func describeWindow(w api.Window) string {
	const form = "2006-01-02 15:04"
	return w.Start.Time().UTC().Format(form) + " to " + w.End.Time().UTC().Format(form) + " UTC"
}

// DeleteSeries ends every lease of a series of the caller's project, or of any for an admin,
// at any time. It waits until nothing is left of them, for a while.
func (l *Leases) DeleteSeries(ctx context.Context, who api.Caller, id api.SeriesID) error {
	v, err := l.zone.Latest(ctx)
	if err != nil {
		return err
	}
	old, ok := v.OneSeries(id)
	if !ok || old.Project != who.Project && !who.Allows(api.RoleAdmin) {
		return api.Errorf(api.CodeNotFound, "no series of leases %q", string(id))
	}
	if _, err := l.zone.Propose(ctx, command.SeriesDelete{Stamp: l.zone.Stamp(), Project: old.Project, ID: id}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, decideMax)
	defer cancel()
	// What is not gone by then goes on ending; the series is shown as DELETING.
	_, _ = l.zone.Store().WaitFor(ctx, state.SeriesTopic(id), func(v *state.State) bool {
		_, there := v.OneSeries(id)
		return !there
	})
	return nil
}
