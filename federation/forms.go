package federation

import (
	"context"
	"sync"
	"time"

	"berth/api"
	"berth/internal/backoff"
)

// Times for following the forms that parents read.
const (
	formsEvery   = time.Second      // between looks at which parents to ask
	formsAge     = 30 * time.Second // after which a parent is asked again
	formsTimeout = 5 * time.Second
)

// linkForms are the newest forms that linked zones are known to read. Digests are sent without being
// asked for, so who sends one has to know.
type linkForms struct {
	mu sync.Mutex // guards of
	of map[api.LinkID]heardForm
}

// heardForm is the form that all nodes of a linked zone read at a time.
type heardForm struct {
	form api.Form
	at   time.Time
}

// formOf returns the form that a linked zone reads; api.FormFirst while it has not answered.
func (b *linkForms) formOf(l api.LinkID) api.Form {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.of[l].form, api.FormFirst)
}

// isDue reports whether a linked zone is to be asked.
func (b *linkForms) isDue(l api.LinkID, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, known := b.of[l]
	return !known || now.Sub(h.at) >= formsAge
}

func (b *linkForms) noteForm(l api.LinkID, h heardForm) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[l] = h
}

// keepLinks drops what is known of all but some links.
func (b *linkForms) keepLinks(links []*api.Link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := map[api.LinkID]heardForm{}
	for _, l := range links {
		if h, known := b.of[l.ID]; known {
			kept[l.ID] = h
		}
	}
	b.of = kept
}

// FollowForms asks each parent which forms it reads, and again from time to time, until ctx ends. Every
// node runs it, because every node sends digests.
func (f *Federation) FollowForms(ctx context.Context) {
	for ctx.Err() == nil {
		links := f.view().Links()
		f.forms.keepLinks(links)
		var all sync.WaitGroup
		for _, l := range links {
			if l.Role != api.LinkParent || !f.forms.isDue(l.ID, f.now()) {
				continue
			}
			all.Go(func() {
				call, cancel := context.WithTimeout(ctx, formsTimeout)
				defer cancel()
				form, err := f.peers.ReadsForm(call, l)
				if err != nil { // what it said before still stands
					f.log.DebugContext(ctx, "a parent does not say which forms it reads; it will be asked again", "link", l.Name, "error", err)
					return
				}
				f.forms.noteForm(l.ID, heardForm{form, f.now()})
			})
		}
		all.Wait()
		backoff.Sleep(ctx, formsEvery)
	}
}
