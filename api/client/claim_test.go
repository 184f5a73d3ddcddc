package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
)

// rival is a zone with two providers, in which somebody else is always quicker, as
// a test says.
type rival struct {
	held       int // VCPU of the consumer at p-1, 0 for none
	generation int // of the consumer
	asked      []string
	put        func(n int, body client.Allocations) (*http.Response, error) // the nth claim, from 1
	puts       int
	none       bool // no candidates
}

func (z *rival) answer(_ int, r *http.Request) (*http.Response, error) {
	z.asked = append(z.asked, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/placement/")+"?"+r.URL.RawQuery)
	switch {
	case r.Method == http.MethodPut:
		var body client.Allocations
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return nil, err
		}
		z.puts++
		return z.put(z.puts, body)
	case strings.HasSuffix(r.URL.Path, "allocation_candidates") && z.none:
		return reply(http.StatusOK, `{"allocation_requests": [], "provider_summaries": {}}`)
	case strings.HasSuffix(r.URL.Path, "allocation_candidates"):
		return reply(http.StatusOK, `{"allocation_requests": [
			{"allocations": {"p-1": {"resources": {"VCPU": 2}}}, "mappings": {"": ["p-1"]}},
			{"allocations": {"p-2": {"resources": {"VCPU": 2}}}, "mappings": {"": ["p-2"]}}], "provider_summaries": {}}`)
	case z.held == 0:
		return reply(http.StatusOK, `{"allocations": {}}`)
	}
	return reply(http.StatusOK, fmt.Sprintf(`{"allocations": {"p-1": {"resources": {"VCPU": %d}, "generation": 1}},
		"project_id": "p", "user_id": "u", "consumer_type": "T", "consumer_generation": %d}`, z.held, z.generation))
}

func (z *rival) claim(t *testing.T) (client.Candidate, error) {
	t.Helper()
	c, _ := talk(t, z.answer)
	q := client.CandidateQuery{Groups: []client.CandidateGroup{{Resources: api.Resources{"VCPU": 2}}}}
	return c.Claim(t.Context(), q, client.Claimant{Consumer: "c-1", Project: "p", User: "u", Type: "T"})
}

func granted() (*http.Response, error) { return reply(http.StatusNoContent, "") }

func denied(code string) (*http.Response, error) {
	return reply(http.StatusConflict, placed(http.StatusConflict, code))
}

const (
	noRoom = "placement.undefined_code"
	moved  = "placement.concurrent_update"
	ask    = "GET allocation_candidates?limit=16&resources=VCPU%3A2"
	fresh  = "GET allocation_candidates?limit=16&read=linearizable&resources=VCPU%3A2"
	take   = "PUT allocations/c-1?"
	look   = "GET allocations/c-1?read=linearizable"
)

func where(c client.Candidate) string { return fmt.Sprint(c.Allocations) }

func TestAClaimTakesTheFirstCandidate(t *testing.T) {
	z := &rival{put: func(_ int, body client.Allocations) (*http.Response, error) {
		assert.Equal(t, client.Allocations{
			Allocations: map[api.ProviderID]client.Allocated{"p-1": {Resources: api.Resources{"VCPU": 2}}}, Project: "p", User: "u", Type: "T",
			Mappings: map[string][]api.ProviderID{"": {"p-1"}},
		}, body)
		return granted()
	}}
	got, err := z.claim(t)
	require.NoError(t, err)
	assert.Equal(t, api.Resources{"VCPU": 2}, got.Allocations["p-1"].Resources)
	assert.Equal(t, []string{ask, take}, z.asked)
}

func TestAClaimReadsAgainWhatMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &rival{held: 1, generation: 7}
		z.put = func(n int, body client.Allocations) (*http.Response, error) {
			if n == 1 {
				assert.Nil(t, body.Generation)
				return denied(moved)
			}
			if assert.NotNil(t, body.Generation) {
				assert.Equal(t, uint64(7), *body.Generation)
			}
			return granted()
		}
		got, err := z.claim(t)
		require.NoError(t, err)
		assert.Contains(t, where(got), "p-1", "the same candidate")
		assert.Equal(t, []string{ask, take, look, take}, z.asked)
	})
}

// A consumer that was there, and is gone, is a new one.
func TestAClaimOfAConsumerThatWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := uint64(5)
		z := &rival{}
		z.put = func(n int, body client.Allocations) (*http.Response, error) {
			if n == 1 {
				assert.Equal(t, &seen, body.Generation)
				return denied(moved)
			}
			assert.Nil(t, body.Generation)
			return granted()
		}
		c, _ := talk(t, z.answer)
		_, err := c.Claim(t.Context(), client.CandidateQuery{Limit: 3}, client.Claimant{Consumer: "c-1", Generation: &seen})
		require.NoError(t, err)
		assert.Equal(t, "GET allocation_candidates?limit=3", z.asked[0])
	})
}

func TestAClaimWhoseAnswerWasLost(t *testing.T) {
	for name, lost := range map[string]func() (*http.Response, error){
		"cut off": func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"late":    func() (*http.Response, error) { return reply(http.StatusGatewayTimeout, placed(504, noRoom)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			z := &rival{generation: 1}
			z.put = func(int, client.Allocations) (*http.Response, error) {
				z.held = 2 // it was done
				return lost()
			}
			_, err := z.claim(t)
			require.NoError(t, err, name)
			assert.Equal(t, []string{ask, take, look}, z.asked, "%s: it is not claimed twice", name)
		})
	}
}

func TestAClaimGoesOnWithTheNextCandidate(t *testing.T) {
	z := &rival{put: func(n int, _ client.Allocations) (*http.Response, error) {
		if n == 1 {
			return denied(noRoom)
		}
		return granted()
	}}
	got, err := z.claim(t)
	require.NoError(t, err)
	assert.Contains(t, where(got), "p-2")
	assert.Equal(t, []string{ask, take, take}, z.asked)
}

func TestAClaimAsksAgainWhenCandidatesAreUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		z := &rival{put: func(n int, _ client.Allocations) (*http.Response, error) {
			if n < 4 {
				return denied(noRoom)
			}
			return granted()
		}}
		got, err := z.claim(t)
		require.NoError(t, err)
		assert.Contains(t, where(got), "p-2")
		assert.Equal(t, []string{ask, take, take, fresh, take, take}, z.asked)
		assert.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond, "after a pause")
	})
}

func TestAClaimGivesUp(t *testing.T) {
	for _, x := range []struct {
		name   string
		put    func() (*http.Response, error)
		none   bool
		puts   int
		rounds int
		code   api.Code
	}{
		{"no candidates", granted, true, 0, 1, api.CodeNoCapacity},
		{"never room", func() (*http.Response, error) { return denied(noRoom) }, false, 2 * client.ClaimRounds, client.ClaimRounds, api.CodeNoCapacity},
		{"always moved", func() (*http.Response, error) { return denied(moved) }, false, client.ClaimTries, 1, api.CodeStale},
		{"never there", func() (*http.Response, error) { return nil, errRefused }, false, client.ClaimTries, 1, api.CodeUnavailable},
		{"malformed", func() (*http.Response, error) { return reply(http.StatusBadRequest, placed(400, noRoom)) }, false, 1, 1, api.CodeInvalid},
		{"not allowed", func() (*http.Response, error) { return reply(http.StatusForbidden, placed(403, noRoom)) }, false, 1, 1, api.CodeForbidden},
	} {
		synctest.Test(t, func(t *testing.T) {
			z := &rival{none: x.none, put: func(int, client.Allocations) (*http.Response, error) { return x.put() }}
			_, err := z.claim(t)
			assert.Equal(t, x.code, api.CodeOf(err), x.name)
			assert.Equal(t, x.puts, z.puts, x.name)
			rounds := 0
			for _, a := range z.asked {
				if a == ask || a == fresh {
					rounds++
				}
			}
			assert.Equal(t, x.rounds, rounds, x.name)
		})
	}
}

// One try before the last is still good.
func TestAClaimThatSucceedsAtItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &rival{put: func(n int, _ client.Allocations) (*http.Response, error) {
			if n < client.ClaimTries {
				return denied(moved)
			}
			return granted()
		}}
		_, err := z.claim(t)
		require.NoError(t, err)
		z = &rival{put: func(n int, _ client.Allocations) (*http.Response, error) {
			if n < 2*client.ClaimRounds {
				return denied(noRoom)
			}
			return granted()
		}}
		_, err = z.claim(t)
		require.NoError(t, err)
	})
}

func TestAClaimEndsWithItsContext(t *testing.T) {
	for name, code := range map[string]string{"moved": moved, "no room": noRoom} {
		synctest.Test(t, func(t *testing.T) {
			z := &rival{put: func(int, client.Allocations) (*http.Response, error) { return denied(code) }}
			c, _ := talk(t, z.answer)
			q := client.CandidateQuery{Groups: []client.CandidateGroup{{Resources: api.Resources{"VCPU": 2}}}}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err := c.Claim(ctx, q, client.Claimant{Consumer: "c-1"})
			assert.Equal(t, api.CodeTimeout, api.CodeOf(err), name)
		})
	}
}

func TestAClaimThatCannotBeReadBackSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := talk(t, func(_ int, r *http.Request) (*http.Response, error) {
			switch {
			case r.Method == http.MethodPut:
				return denied(moved)
			case strings.HasSuffix(r.URL.Path, "c-1"):
				return reply(http.StatusForbidden, placed(403, noRoom))
			}
			return (&rival{}).answer(0, r)
		})
		_, err := c.Claim(t.Context(), client.CandidateQuery{}, client.Claimant{Consumer: "c-1"})
		assert.Equal(t, api.CodeForbidden, api.CodeOf(err))
	})
}
