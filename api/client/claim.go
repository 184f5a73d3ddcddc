package client

import (
	"context"
	"errors"

	"berth/api"
)

// Limits of Claim.
const (
	ClaimRounds     = 4  // requests for candidates
	ClaimTries      = 8  // attempts at one candidate
	claimCandidates = 16 // candidates of one round, if the query has no limit
)

// Claimant is the consumer for which Claim allocates.
type Claimant struct {
	Consumer   api.ConsumerID // a UUID
	Project    api.ProjectID
	User       api.UserID
	Type       string  // A-Z 0-9 _, such as INSTANCE
	Generation *uint64 // generation that was read; nil for a new consumer
}

// Claim finds room for q and allocates it to a consumer, in place of all its allocations.
// It returns the candidate that it allocated. Every caller of the placement API needs this
// recipe, because the room may be taken by others between the answer that shows it and
// the claim:
//
//  1. Request candidates. If there are none, no provider has room: no_capacity.
//  2. Put the allocations of the first one, with the consumer's generation.
//  3. If the consumer has changed (stale_generation), or if the answer was lost, read it
//     again. If it has the allocations that were put, this is done; else put the same
//     candidate with the generation just read, up to ClaimTries times.
//  4. If there is no more room (no_capacity), continue with the next candidate.
//  5. After the last one, pause and start again, ClaimRounds times in all, from the
//     second time on with linearizable reads.
//
// Any other error ends it. Pauses grow as for all calls. After an error with code timeout
// or unavailable, read the allocations of the consumer.
func (c *Client) Claim(ctx context.Context, q CandidateQuery, who Claimant) (Candidate, error) {
	if q.Limit == 0 {
		q.Limit = claimCandidates
	}
	t := taking{c: c, who: who}
	var pause pauses
	asked := c
	for round := 1; ; round++ {
		found, err := asked.Candidates(ctx, q)
		if err != nil {
			return Candidate{}, err
		}
		if len(found.Requests) == 0 {
			return Candidate{}, api.Wrap(api.CodeNoCapacity, "client.Claim", "no providers have room for this now, or none are such", nil)
		}
		for i := range found.Requests {
			err = t.takeCandidate(ctx, &found.Requests[i])
			if err == nil {
				return found.Requests[i], nil
			}
			if api.CodeOf(err) != api.CodeNoCapacity {
				return Candidate{}, err
			}
		}
		if round == ClaimRounds {
			return Candidate{}, err
		}
		if pause.waitAfter(ctx, round, 0) != nil {
			return Candidate{}, api.Wrap(api.CodeTimeout, "client.Claim", api.MessageOf(err), errors.Join(ctx.Err(), err))
		}
		asked = c.Linearizable()
	}
}

// taking is one Claim under way.
type taking struct {
	c   *Client
	who Claimant
}

// takeCandidate puts the allocations of one candidate, up to ClaimTries times.
func (t *taking) takeCandidate(ctx context.Context, from *Candidate) error {
	var pause pauses
	for try := 1; ; try++ {
		err := t.c.PutAllocations(ctx, t.who.Consumer, Allocations{
			Allocations: from.Allocations, Mappings: from.Mappings,
			Project: t.who.Project, User: t.who.User, Type: t.who.Type, Generation: t.who.Generation,
		})
		again := api.CodeOf(err) == api.CodeStale || isPassing(err)
		if !again || try == ClaimTries {
			return err
		}
		if pause.waitAfter(ctx, try, retryAfter(err)) != nil {
			return api.Wrap(api.CodeTimeout, "client.Claim", api.MessageOf(err), errors.Join(ctx.Err(), err))
		}
		held, unread := t.c.Linearizable().Allocations(ctx, t.who.Consumer)
		if unread != nil {
			return unread
		}
		if holdsWanted(held.Allocations, from.Allocations) {
			return nil
		}
		t.who.Generation = held.Generation
	}
}

// holdsWanted reports whether a consumer has exactly the wanted allocations.
func holdsWanted(held, wanted map[api.ProviderID]Allocated) bool {
	if len(held) != len(wanted) {
		return false
	}
	for id, w := range wanted {
		if h, ok := held[id]; !ok || !h.Resources.Equal(w.Resources) {
			return false
		}
	}
	return true
}
