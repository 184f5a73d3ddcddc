// Package leasecheck asks the external service of a zone before a lease is made or changed,
// and tells it when one has ended. Which service that is, is part of the zone's configuration.
//
// What is still to be told is in the log, until the service has confirmed it: at least once,
// whatever crashes. The package opens no connection itself, and knows no rule of leases.
package leasecheck

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"unicode"

	"berth/api"
	"berth/api/rest"
	"berth/webhook"
	"berth/zone"
)

// asksAtOnce bounds the calls of the service that are under way, those of ends left out. More
// wait, within the time of their call.
const asksAtOnce = 64

// headerToken shows the service who asks.
const headerToken = "X-Auth-Token"

// Sender makes one call; see webhook.Sender.
type Sender interface {
	Ask(ctx context.Context, q *webhook.Question) (*webhook.Answer, error)
}

// Config holds what checks need.
type Config struct {
	Zone   *zone.Zone
	Sender Sender
	// Token returns the token of a service as text, "" for none.
	Token func(c *api.LeaseCheck) (string, error)
}

// Check asks and tells the service. Its methods may be called concurrently.
type Check struct {
	conf Config
	room chan struct{} // a place for each question under way

	mu     sync.Mutex // guards the fields below
	counts Counts
}

// Counts are the calls that this process has made.
type Counts struct {
	Allowed, Refused, Unanswered uint64 // questions; an answer that is neither yes nor no counts as none
	Told, Untold                 uint64 // ends, confirmed and not
}

// New returns the checks of a zone on one node. Nothing runs until Lead is called.
func New(c Config) *Check { return &Check{conf: c, room: make(chan struct{}, asksAtOnce)} }

// Counts returns the calls that this process has made.
func (c *Check) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

func (c *Check) count(add func(n *Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.counts)
}

// Asks reports whether the zone has a service that is to be asked.
func (c *Check) Asks() bool { return c.service().URL != "" }

func (c *Check) service() *api.LeaseCheck { return &c.conf.Zone.View().Config.Leases.Check }

// CheckCreate asks whether a caller may have a lease; places is where its reservations would
// be. CodeForbidden has the service's own sentence; CodeUnavailable is that it gave no answer,
// and that the zone refuses then.
func (c *Check) CheckCreate(ctx context.Context, who api.Caller, lease *api.LeaseTerms, places [][]rest.CheckedPlace) error {
	return c.ask(ctx, rest.LeaseCheckCreate, &rest.LeaseCheckCall{Context: c.contextOf(who.User, who.Project), Lease: rest.CheckedLeaseOf(lease, places)})
}

// CheckUpdate asks whether a caller may change a lease from what it is now; else it is as
// CheckCreate.
func (c *Check) CheckUpdate(ctx context.Context, who api.Caller, now, next *api.LeaseTerms, places [][]rest.CheckedPlace) error {
	current := rest.CheckedLeaseOf(now, nil)
	return c.ask(ctx, rest.LeaseCheckUpdate, &rest.LeaseCheckCall{
		Context: c.contextOf(who.User, who.Project), Current: &current, Lease: rest.CheckedLeaseOf(next, places),
	})
}

func (c *Check) contextOf(u api.UserID, p api.ProjectID) rest.LeaseCheckContext {
	v := c.conf.Zone.View()
	return rest.LeaseCheckContext{User: u, Project: p, Region: v.Name, Zone: v.Zone}
}

// ask makes a call that may refuse.
func (c *Check) ask(ctx context.Context, call string, body *rest.LeaseCheckCall) error {
	service := c.service()
	if service.URL == "" { // it was taken away meanwhile
		return nil
	}
	answer, err := c.callInTurn(ctx, service, call, body)
	switch {
	case err == nil && answer.Status == http.StatusNoContent:
		c.count(func(n *Counts) { n.Allowed++ })
		return nil
	case err == nil && answer.Status == http.StatusForbidden:
		c.count(func(n *Counts) { n.Refused++ })
		return api.Errorf(api.CodeForbidden, "%s", sentenceOf(answer.Body))
	case err == nil:
		err = api.Errorf(api.CodeUnavailable, "it answered with status %d", answer.Status)
	}
	c.count(func(n *Counts) { n.Unanswered++ })
	c.conf.Zone.Log().WarnContext(ctx, "the external service for leases gave no answer", "call", call, "lease", body.Lease.ID, "allowed", service.Open, "error", err)
	if service.Open {
		return nil
	}
	return api.Errorf(api.CodeUnavailable, "the external service that checks the leases of this zone gave no answer: %s; nothing was changed", api.MessageOf(err))
}

// callInTurn makes a call when fewer than asksAtOnce are under way. It takes no longer than
// one call may take.
func (c *Check) callInTurn(ctx context.Context, service *api.LeaseCheck, call string, body *rest.LeaseCheckCall) (*webhook.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, service.WaitMax())
	defer cancel()
	select {
	case c.room <- struct{}{}:
		defer func() { <-c.room }()
	case <-ctx.Done():
		return nil, api.Errorf(api.CodeOverloaded, "too many other leases wait for it")
	}
	return c.call(ctx, service, call, body)
}

// call makes one call.
func (c *Check) call(ctx context.Context, service *api.LeaseCheck, call string, body *rest.LeaseCheckCall) (*webhook.Answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "leasecheck.call", "", err)
	}
	q := webhook.Question{URL: strings.TrimSuffix(service.URL, "/") + "/" + call, Body: text, Wait: service.WaitMax()}
	if q.Secret, err = c.conf.Token(service); err != nil {
		return nil, api.Wrap(api.CodeInternal, "leasecheck.call", "its token cannot be read", err)
	}
	if q.Secret != "" {
		q.Header = map[string]string{headerToken: q.Secret}
	}
	return c.conf.Sender.Ask(ctx, &q)
}

// refusedAnyway is said if a refusal has no sentence.
const refusedAnyway = "the external service that checks the leases of this zone refuses the lease"

// sentenceOf returns the sentence of a refusal, in one line and cut to its limit.
func sentenceOf(body []byte) string {
	var b rest.LeaseCheckRefusal
	if json.Unmarshal(body, &b) != nil { // whoever refuses in another form refuses as well
		return refusedAnyway
	}
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(b.Message, " "))
	if len(text) > api.LeaseCheckMessageMaxBytes {
		text = strings.ToValidUTF8(text[:api.LeaseCheckMessageMaxBytes], "")
	}
	if text = strings.TrimSpace(text); text == "" {
		return refusedAnyway
	}
	return text
}
