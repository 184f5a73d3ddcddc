package saga

import (
	"context"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// Limits of following a child. They bound how much a child can make this zone read, log
// and ask, whatever it answers. A correct zone stays far below them.
const (
	// followBytesPerSecond bounds the average size of one child's answers. A status of
	// one instance has some hundred bytes.
	followBytesPerSecond = 1 << 20
	// followItemBytes is the cost of one item in addition to its texts.
	followItemBytes = 64
	// followAnswerBytes is the minimum cost of one answer.
	followAnswerBytes = 4 << 10
	// followSpare is for how long a child saves up what it has not used: as much it may say at once.
	followSpare = 250 * time.Millisecond
	// followIdleMax is how many answers in a row without news are followed at once. That an instance was
	// made is none, and that it runs comes right after it.
	followIdleMax = 4
	// followIdlePause is the pause after the next one; it doubles with each.
	followIdlePause = 5 * time.Millisecond
	// followNoteEvery is the interval for logging the next index when there was no
	// news.
	followNoteEvery = 10 * time.Second
	// followIndexMax bounds the log indices of a child.
	followIndexMax = 1 << 62
)

// follower follows the changes of one child. It is for one goroutine.
type follower struct {
	s      *Saga
	id     api.LinkID
	begun  bool      // logged and next are known
	logged uint64    // the next index, as logged
	next   uint64    // the next index as known here: everything up to it is handled
	noted  time.Time // when that was logged last
	paid   time.Time // until when the answers so far use up the child's share
	idle   int       // answers without news in a row

	undecided api.InstanceID // of the last answer, the first instance whose hold is not decided here; "" for none
}

// followLink processes a child's reports on its instances until ctx ends or an answer
// is unusable. It checks reports before logging them: the log grows only by real
// changes, whatever the child sends.
func (s *Saga) followLink(ctx context.Context, id api.LinkID) error {
	f := &follower{s: s, id: id, noted: s.zone.Now()}
	for ctx.Err() == nil {
		l, ok := s.zone.View().Link(id)
		if !ok {
			return nil
		}
		if l.ChangesNext != f.logged || !f.begun { // also after a restore from a backup
			f.begun, f.logged, f.next = true, l.ChangesNext, l.ChangesNext
		}
		began := s.zone.Now()
		call, cancel := context.WithTimeout(ctx, followWait+peerTimeout)
		ch, err := s.peers.Changes(call, l, f.next, followWait)
		cancel()
		if err != nil {
			return err
		}
		if anew, err := s.checkRestored(ctx, l, ch); err != nil {
			return err
		} else if anew {
			continue
		}
		news, err := f.takeChanges(ctx, ch)
		if err != nil {
			return err
		}
		if f.undecided != "" {
			s.awaitDecision(ctx, f.undecided)
		}
		now := s.zone.Now()
		wait := f.pay(now, followCost(ch))
		if f.countIdle(news) > followIdleMax && now.Sub(began) < followWait {
			wait = max(wait, backoff.Double(followIdlePause, retryPause, f.idle-followIdleMax-1)-now.Sub(began))
		}
		if wait > 0 {
			backoff.Sleep(ctx, wait)
		}
	}
	return nil
}

// awaitDecision waits until the hold of an instance is decided, or it is seen to have none; for retryPause at
// most.
func (s *Saga) awaitDecision(ctx context.Context, id api.InstanceID) {
	h, undecided := s.zone.View().UndecidedHoldOf(id)
	if !undecided {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, retryPause)
	defer cancel()
	_, _ = s.zone.Store().WaitFor(ctx, state.HoldTopic(h.Key()), func(v *state.State) bool { // when time is over the child is asked again
		_, undecided := v.UndecidedHoldOf(id)
		return !undecided
	})
}

// pay charges the child's share with an answer, and returns for how long it is used up. News after a
// quiet time is followed at once; what comes while an answer is on its way shares the next one.
func (f *follower) pay(now time.Time, cost time.Duration) time.Duration {
	if spare := now.Add(-followSpare); f.paid.Before(spare) {
		f.paid = spare
	}
	f.paid = f.paid.Add(cost)
	return f.paid.Sub(now)
}

// countIdle counts an answer, and returns how many there were in a row without news.
func (f *follower) countIdle(news bool) int {
	if f.idle++; news {
		f.idle = 0
	}
	return f.idle
}

// watchChildren logs when a child falls silent or is heard again: everything below a
// silent child is unreachable for the zones above. A leader that has never heard from a
// child logs nothing about it.
func (s *Saga) watchChildren(ctx context.Context) {
	s.zone.Every(ctx, zone.LinkFresh/4, func(ctx context.Context) error {
		if s.zone.Store().Form() < api.FormSecond {
			return nil // some node of the zone cannot read the command
		}
		now := s.zone.Instant()
		for _, l := range s.zone.View().Links() {
			if l.Role != api.LinkChild {
				continue
			}
			_, age, heard := s.digests.Digest(l.Zone)
			since := now.Add(-age)
			switch {
			case heard && l.SilentSince == 0 && age > zone.LinkFresh:
				s.zone.Log().WarnContext(ctx, "child is silent", "link", l.Name, "since", since)
			case heard && l.SilentSince != 0 && age <= zone.LinkFresh/2:
				s.zone.Log().InfoContext(ctx, "child is heard again", "link", l.Name, "silent_since", l.SilentSince)
				since = 0
			default:
				continue
			}
			if _, err := s.zone.Propose(ctx, command.LinkSet{Stamp: s.zone.Stamp(), ID: l.ID, Silent: &since}); err != nil {
				return err
			}
		}
		return nil
	})
}

// followCost returns the time that an answer of a size uses up.
func followCost(ch *api.Changes) time.Duration {
	n := 0
	for i := range ch.Items {
		n += followItemBytes + len(ch.Items[i].ID) + len(ch.Items[i].Fault)
	}
	return time.Duration(max(n, followAnswerBytes)) * time.Second / followBytesPerSecond
}

// takeChanges logs the news in an answer, and reports whether there was any.
func (f *follower) takeChanges(ctx context.Context, ch *api.Changes) (bool, error) {
	s := f.s
	if l, ok := s.zone.View().Link(f.id); ok && ch.Restored < l.Restored {
		return false, nil // the node that answers is behind, and knows what its zone has forgotten
	}
	if endsBefore(ch, f.next) {
		f.next, f.undecided = 0, ""
		return false, nil
	}
	if !soundChanges(ch, f.next) {
		s.estimator.NoteFailure(f.id)
		return false, api.Errorf(api.CodeInternal, "the child gave an unusable list of changes")
	}
	if s.zone.Store().Form() < api.FormFifth {
		for i := range ch.Items {
			ch.Items[i].Restarts = 0
		}
	}
	news, next := f.siftChanges(s.zone.View(), ch)
	if len(news) < len(ch.Items) { // true, or is this node behind?
		v, err := s.zone.Latest(ctx)
		if err != nil {
			return false, err
		}
		news, next = f.siftChanges(v, ch)
	}
	if next == f.next && len(news) == 0 {
		return false, nil
	}
	f.next = next
	if len(news) == 0 && s.zone.Now().Sub(f.noted) < followNoteEvery {
		return false, nil
	}
	for len(news) > api.ChangesMax {
		if err := f.logChanges(ctx, f.logged, news[:api.ChangesMax]); err != nil {
			return false, err
		}
		news = news[api.ChangesMax:]
	}
	return len(news) > 0, f.logChanges(ctx, next, news)
}

func (f *follower) logChanges(ctx context.Context, next uint64, items []api.InstanceChange) error {
	c := command.InstanceChanges{Stamp: f.s.zone.Stamp(), Link: f.id, After: f.logged, Next: next, Items: items}
	if _, err := f.s.zone.Propose(ctx, c); err != nil {
		return err
	}
	f.noted = f.s.zone.Now()
	if l, ok := f.s.zone.View().Link(f.id); ok {
		f.logged, f.next = l.ChangesNext, l.ChangesNext // before next if a decision was logged meanwhile
	}
	return nil
}

// endsBefore reports whether a child answers that its log ends before the index after which it is asked. Then it
// has named an index that it never had: to go on from there would miss all that happens below until its log is so
// long. So all is read again from the beginning, and what is known is no news.
func endsBefore(ch *api.Changes, after uint64) bool {
	return after > 0 && ch.Next == 0 && len(ch.Items) == 0
}

// soundChanges reports whether an answer can be the changes after an index: in order,
// and ending at the next index.
func soundChanges(ch *api.Changes, after uint64) bool {
	last := after
	for i := range ch.Items {
		at := ch.Items[i].Index
		if at <= after || at < last || at > followIndexMax {
			return false
		}
		last = at
	}
	return ch.Next == last
}

// siftChanges returns the items that change something here, and the next index: before
// an instance whose hold is undecided, so that no status is lost.
func (f *follower) siftChanges(v *state.State, ch *api.Changes) (news []api.InstanceChange, next uint64) {
	f.undecided = ""
	for _, item := range ch.Items {
		switch v.NewsOf(f.id, item) {
		case state.NewsPending:
			f.undecided = item.ID
			return news, item.Index - 1
		case state.NewsChange:
			item.Fault = state.Clip(item.Fault)
			news = append(news, item)
		case state.NewsNone:
		}
	}
	return news, ch.Next
}

// Changes answers a parent's long poll with the changes, after a log index of this
// zone, of the instances made for it. If the log has never been so long, it returns no changes at once, by
// which the parent knows this; and at once what there is if a backup has replaced the state since restored, which the parent knows of.
func (s *Saga) Changes(ctx context.Context, parent *api.Link, after, restored uint64, wait time.Duration) api.Changes {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if after > s.zone.View().Index() {
		if v, err := s.zone.Latest(ctx); err == nil && after > v.Index() { // else this node is behind, or cannot know
			return api.Changes{Restored: v.Restored(), Index: v.Index()}
		}
	}
	c := api.Changes{Next: after}
	_, _ = s.zone.Store().WaitFor(ctx, state.ChangesTopic(parent.ID), func(v *state.State) bool { // without news, the answer is an empty list
		c = changesIn(v, parent, after)
		return len(c.Items) > 0 || c.Restored > restored
	})
	return c
}

// changesIn returns the changes in one state after an index.
func changesIn(v *state.State, parent *api.Link, after uint64) api.Changes {
	c := v.Changes(parent.ID, after, api.ChangesMax)
	c.Restored, c.Index = v.Restored(), v.Index()
	return c
}

// ConfirmedChanges is Changes without waiting, and with all that the log had confirmed before: a parent takes what is not there for
// gone. Only the leader may call it.
func (s *Saga) ConfirmedChanges(ctx context.Context, parent *api.Link, after uint64) (api.Changes, error) {
	v, err := s.zone.Latest(ctx)
	if err != nil {
		return api.Changes{}, err
	}
	return changesIn(v, parent, after), nil
}
