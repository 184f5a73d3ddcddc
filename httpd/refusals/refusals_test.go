package refusals

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/requestid"
)

// TestTheLogIsBounded: LinesMax refusals are logged and one more is not, all are counted, and the next
// line after LinesEvery says how many are missing.
func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	now := time.Unix(1, 0)
	c := New(slog.New(slog.NewTextHandler(&b, nil)), func() time.Time { return now })
	note := func() { c.NoteAuthentication(t.Context(), API, TokenUnknown, "address", "192.0.2.7") }
	lines := func() []string { return strings.Split(strings.TrimSpace(b.String()), "\n") }
	for range LinesMax {
		note()
	}
	require.Len(t, lines(), LinesMax)
	assert.Contains(t, lines()[0], `msg="authentication refused" listener=api reason=token_unknown address=192.0.2.7`)
	note()
	now = now.Add(LinesEvery - 1)
	note()
	require.Len(t, lines(), LinesMax)
	now = now.Add(1)
	note()
	note()
	require.Len(t, lines(), LinesMax+2)
	assert.Contains(t, lines()[LinesMax], "suppressed=2")
	assert.NotContains(t, lines()[LinesMax+1], "suppressed")
	assert.Equal(t, uint64(LinesMax+4), c.Counts().Authentications[Key{API, TokenUnknown}])
}

// TestAllRefusalsShareTheLines: who is known may fill the log no more than who is not, nor both together.
func TestAllRefusalsShareTheLines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	now := time.Unix(1, 0)
	c := New(slog.New(requestid.NewHandler(slog.NewTextHandler(&b, nil))), func() time.Time { return now })
	ctx := requestid.With(t.Context(), "req-7")
	for range LinesMax {
		c.NoteAuthentication(ctx, Agent, Revoked)
		c.NoteRefusal(ctx, Gateway, errors.New("not so"), "peer_zone", "z")
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Len(t, lines, LinesMax)
	assert.Contains(t, lines[0], `msg="authentication refused" listener=agent reason=revoked request_id=req-7`)
	assert.Contains(t, lines[1], `msg="call refused" listener=gateway error="not so" peer_zone=z request_id=req-7`)
	b.Reset()
	now = now.Add(LinesEvery)
	c.NoteRefusal(ctx, Gateway, errors.New("not so"))
	assert.Contains(t, b.String(), "suppressed=60 request_id=req-7")
	assert.Equal(t, uint64(LinesMax), c.Counts().Authentications[Key{Agent, Revoked}])
}

// TestCountsAreKnownFromTheStart: each series is there before its first refusal, and a nil counter counts nothing.
func TestCountsAreKnownFromTheStart(t *testing.T) {
	t.Parallel()
	c := New(slog.New(slog.DiscardHandler), time.Now)
	got := c.Counts()
	for _, k := range []Key{{API, TokenMissing}, {Gateway, NotLinked}, {Node, NotMember}, {Agent, Revoked}} {
		n, ok := got.Authentications[k]
		assert.True(t, ok, "%v", k)
		assert.Zero(t, n)
	}
	assert.Len(t, got.Authorizations, 4)
	c.NoteAuthorization(API)
	assert.Equal(t, uint64(1), c.Counts().Authorizations[API])
	var none *Counter
	none.NoteAuthorization(API)
	none.NoteAuthentication(t.Context(), API, TokenMissing)
	none.NoteRefusal(t.Context(), API, errors.New("no"))
}
