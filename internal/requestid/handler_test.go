package requestid_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/requestid"
)

// TestEachLineOfACallHasItsID: a record with the context of a call gets its id, last and once, whatever logger of the
// handler it is logged with; others are handed on as they are.
func TestEachLineOfACallHasItsID(t *testing.T) {
	t.Parallel()
	call := requestid.With(t.Context(), "req-7")
	for name, c := range map[string]struct {
		log  func(*slog.Logger)
		want string
	}{
		"of a call":              {func(l *slog.Logger) { l.InfoContext(call, "m", "a", 1) }, "level=INFO msg=m a=1 request_id=req-7\n"},
		"by a logger of its own": {func(l *slog.Logger) { l.With("z", 2).WarnContext(call, "m", "a", 1) }, "level=WARN msg=m z=2 a=1 request_id=req-7\n"},
		"in a group":             {func(l *slog.Logger) { l.WithGroup("g").InfoContext(call, "m", "a", 1) }, "level=INFO msg=m g.a=1 g.request_id=req-7\n"},
		"of a part of a call": {func(l *slog.Logger) {
			part, stop := context.WithTimeout(call, time.Hour)
			defer stop()
			l.ErrorContext(part, "m")
		}, "level=ERROR msg=m request_id=req-7\n"},
		"of no call":        {func(l *slog.Logger) { l.InfoContext(context.Background(), "m") }, "level=INFO msg=m\n"},
		"without a context": {func(l *slog.Logger) { l.Info("m") }, "level=INFO msg=m\n"},
		"below the level":   {func(l *slog.Logger) { l.DebugContext(call, "m") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			c.log(slog.New(requestid.NewHandler(newText(&b))))
			assert.Equal(t, c.want, b.String())
		})
	}
}

// newText returns a handler that writes records without their time.
func newText(b *bytes.Buffer) slog.Handler {
	return slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}

// TestARecordIsLeftAsItIs: who shares a record with the handler does not get the id.
func TestARecordIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	r := slog.NewRecord(time.Time{}, slog.LevelInfo, "m", 0)
	for n := range 8 { // more than a record has room for by itself
		r.AddAttrs(slog.Int("a", n))
	}
	h := requestid.NewHandler(newText(&b))
	require.NoError(t, h.Handle(requestid.With(t.Context(), "req-1"), r))
	require.NoError(t, h.Handle(requestid.With(t.Context(), "req-2"), r))
	assert.Equal(t, 8, r.NumAttrs())
	for _, id := range []string{"request_id=req-1\n", "request_id=req-2\n"} {
		assert.Equal(t, 1, bytes.Count(b.Bytes(), []byte(id)))
	}
	assert.Equal(t, 2, bytes.Count(b.Bytes(), []byte("request_id=")))
}
