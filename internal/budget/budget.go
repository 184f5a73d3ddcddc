// Package budget counts what the calls of one process hold while they are under way, by who makes them: calls, bytes of
// bodies and answers, and waits. What would be above a limit is refused before it is held, and what a call holds is given
// back when it ends.
//
// It knows no HTTP, reads no clock and keeps nothing of a call that has ended. How often somebody may call is not decided
// here: see httpd/rates.
package budget

import (
	"context"
	"maps"
	"sync"

	"berth/api"
)

// Kind is what is counted.
type Kind string

// The kinds. Small bodies and large ones are counted apart, so that who needs little of a body finds room beside those who
// need much.
const (
	Calls         Kind = "calls"
	Bodies        Kind = "bodies"        // bytes of bodies, up to SmallBody of each
	LargeBodies   Kind = "large_bodies"  // bytes of bodies beyond that
	Answers       Kind = "answers"       // bytes of answers that are being written
	Waits         Kind = "waits"         // reads that wait for something to happen
	Registrations Kind = "registrations" // of agents
)

// kinds are all kinds, with what one of them is in a sentence.
var kinds = map[Kind]string{
	Calls: "calls", Bodies: "bytes of bodies", LargeBodies: "bytes of large bodies", Answers: "bytes of answers", Waits: "calls that wait",
	Registrations: "registrations",
}

// SmallBody is how many bytes of a body are counted as Bodies.
const SmallBody = 64 << 10

// Scope is a kind of party.
type Scope string

// The scopes.
const (
	Node      Scope = "node"      // all of this process, but for its admin listener
	Listener  Scope = "listener"  // all who call one
	Address   Scope = "address"   // all who call a listener from one
	Strangers Scope = "strangers" // all who call a listener without a token or a link
	Stranger  Scope = "stranger"  // those of one address
	User      Scope = "user"      // in one project
	Link      Scope = "zone"
	Agent     Scope = "agent"
)

// scopes are all scopes, with how a caller is told of them. What is shared by callers who do not know each other is not his
// fault.
var scopes = map[Scope]struct {
	name   string
	shared bool
}{
	Node: {"this node", true}, Listener: {"this listener", true}, Strangers: {"this listener, for callers without a token,", true},
	Address: {"your address", false}, Stranger: {"your address, without a token,", false}, User: {"a user", false}, Link: {"a zone", false}, Agent: {"an agent", false},
}

// Party is somebody who makes calls, or to whom they are made.
type Party struct {
	Scope Scope
	ID    string
}

// Limits are how much of each kind one party of each scope may hold at once. What is not there has no limit.
type Limits map[Kind]map[Scope]int64

// Defaults returns the limits of a node of which one address may have each of all places of a listener. An address has the
// same share of what is counted here.
func Defaults(each, all int64) Limits {
	out := Limits{
		Calls:         {Node: 8192, Listener: 4096, Strangers: 512, Stranger: 128, User: 1024, Link: 1024, Agent: 64},
		Bodies:        {Node: 64 << 20, Listener: 32 << 20, Strangers: 4 << 20, Stranger: 1 << 20, User: 8 << 20, Link: 8 << 20, Agent: 1 << 20},
		LargeBodies:   {Node: 128 << 20, Listener: 64 << 20, User: 24 << 20, Link: 24 << 20, Agent: 24 << 20},
		Answers:       {Node: 128 << 20, Listener: 64 << 20, Strangers: 4 << 20, Stranger: 1 << 20, User: 24 << 20, Link: 24 << 20, Agent: 24 << 20},
		Waits:         {Node: 256, User: 16, Link: 16},
		Registrations: {Agent: 1},
	}
	for _, of := range out {
		if n, ok := of[Listener]; ok {
			of[Address] = n * each / all
		}
	}
	return out
}

// Refusal is what was refused: what a party of a scope had too much of.
type Refusal struct {
	Kind  Kind
	Scope Scope
}

// Budget counts what the calls of one process hold. Its methods may be called concurrently. A nil one limits nothing.
type Budget struct {
	limits Limits

	mu      sync.Mutex // guards what follows
	held    map[key]int64
	refused map[Refusal]uint64
}

type key struct {
	kind  Kind
	party Party
}

// New returns a budget of which nothing is held.
func New(l Limits) *Budget {
	b := &Budget{limits: l, held: map[key]int64{}, refused: map[Refusal]uint64{}}
	for k, of := range l {
		for s := range of {
			b.refused[Refusal{k, s}] = 0
		}
	}
	return b
}

// Begin returns the account of a call for parties. It holds nothing. The caller calls End when the call is over.
func (b *Budget) Begin(parties ...Party) *Account {
	if b == nil {
		return nil
	}
	return &Account{budget: b, parties: parties, held: map[Kind]int64{}}
}

// Held returns how much of its limit the process holds of each kind, from 0 to 1.
func (b *Budget) Held() map[Kind]float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[Kind]float64{}
	for k, of := range b.limits {
		if most, ok := of[Node]; ok {
			out[k] = float64(b.held[key{k, Party{Scope: Node}}]) / float64(most)
		}
	}
	return out
}

// Refused returns how often each limit has refused something, since the process started.
func (b *Budget) Refused() map[Refusal]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.refused)
}

// check returns why parties may not hold n more of a kind. The caller holds the lock.
func (b *Budget) check(k Kind, n int64, parties []Party) error {
	for _, p := range parties {
		most, limited := b.limits[k][p.Scope]
		if !limited || b.held[key{k, p}]+n <= most {
			continue
		}
		b.refused[Refusal{k, p.Scope}]++
		code := api.CodeOverloaded
		if scopes[p.Scope].shared {
			code = api.CodeUnavailable
		}
		return api.Errorf(code, "%s may have %d %s under way at once, and this would be more; try again when some have ended", scopes[p.Scope].name, most, kinds[k])
	}
	return nil
}

// add adds n to what parties hold of a kind. The caller holds the lock.
func (b *Budget) add(k Kind, n int64, parties []Party) {
	for _, p := range parties {
		at := key{k, p}
		if b.held[at] += n; b.held[at] == 0 {
			delete(b.held, at)
		}
	}
}

// Account is what one call holds. Its methods may be called concurrently. A nil one has no limits.
type Account struct {
	budget *Budget

	// The lock of the budget guards what follows.
	parties []Party
	held    map[Kind]int64
	ended   bool
}

// Take lets the call hold n more of a kind, or returns the refusal to answer with: then it holds what it held before.
func (a *Account) Take(k Kind, n int64) error {
	if a == nil {
		return nil
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	if a.ended { // its answer is of no use
		return nil
	}
	if err := a.budget.check(k, n, a.parties); err != nil {
		return err
	}
	a.held[k] += n
	a.budget.add(k, n, a.parties)
	return nil
}

// Give gives n of a kind back, which the call has taken.
func (a *Account) Give(k Kind, n int64) {
	if a == nil {
		return
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	if a.ended { // all was given back
		return
	}
	a.held[k] -= n
	a.budget.add(k, -n, a.parties)
}

// For says that the call is also that of a party, who holds from now on what the call holds. It returns the refusal to
// answer with if he may not: then the call is not counted for him.
func (a *Account) For(p Party) error {
	if a == nil {
		return nil
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	if a.ended {
		return nil
	}
	for k, n := range a.held {
		if err := a.budget.check(k, n, []Party{p}); err != nil {
			return err
		}
	}
	for k, n := range a.held {
		a.budget.add(k, n, []Party{p})
	}
	a.parties = append(a.parties, p)
	return nil
}

// End gives back all that the call holds.
func (a *Account) End() {
	if a == nil {
		return
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	for k, n := range a.held {
		a.budget.add(k, -n, a.parties)
	}
	clear(a.held)
	a.ended = true
}

type accountKey struct{}

// With returns a context of the call with an account.
func With(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, accountKey{}, a)
}

// Of returns the account of the call of a context, nil if it has none.
func Of(ctx context.Context) *Account {
	a, _ := ctx.Value(accountKey{}).(*Account)
	return a
}
