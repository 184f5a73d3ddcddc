package node

import (
	"context"
	"sync"
	"time"

	"berth/api"
	"berth/identity"
)

// Limits of calls by somebody who is not known yet and shows a join token. They count
// only calls with tokens that this node has never seen: those that it was given good
// tokens for are never turned away for the sake of others.
const (
	confirmsAtOnce    = 8  // unknown tokens that are looked up with a majority at one time
	confirmsPerSecond = 16 // and within one second
)

// confirms bounds how often a caller without any right has this node ask a majority.
type confirms struct {
	mu       sync.Mutex // guards the fields below
	second   time.Time  // the one that made counts
	made     int
	underWay int
}

// begin reports whether one more may begin at a time.
func (c *confirms) begin(at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.Sub(c.second) >= time.Second || at.Before(c.second) {
		c.second, c.made = at, 0
	}
	if c.underWay >= confirmsAtOnce || c.made >= confirmsPerSecond {
		return false
	}
	c.underWay++
	c.made++
	return true
}

func (c *confirms) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay--
}

// admitted returns the record of a join token that is good now. One that this node
// does not know, which may have begun to lead just now, is looked up once more with a
// majority. Nothing is written: a token that is no good never reaches the log.
func (n *Node) admitted(ctx context.Context, t identity.JoinToken) (*api.JoinToken, error) {
	v := n.store.View()
	if _, known := v.Join(t.ID); !known {
		if !n.confirms.begin(n.now()) {
			return nil, api.Errorf(api.CodeOverloaded, "too many calls with unknown join tokens; try again")
		}
		defer n.confirms.end()
		var err error
		if v, err = n.store.Linearizable(ctx); err != nil {
			return nil, err
		}
	}
	if j, ok := v.Join(t.ID); ok && n.admits(j, t) {
		return j, nil
	}
	return nil, api.Errorf(api.CodeUnauthenticated, "the join token is unknown, used or expired; ask for a new one")
}

// admits reports whether t is the token that was recorded as j, and is good now.
func (n *Node) admits(j *api.JoinToken, t identity.JoinToken) bool {
	return identity.CheckToken(j.Hash, t.Hash()) && j.Kind == t.Kind && !j.Used && n.zone.Stamp().At < j.Expires
}
