package agent

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

// TestJournalLinesAreJSON: a line is spelled as encoding/json spells it, whatever is in it.
func TestJournalLinesAreJSON(t *testing.T) {
	text := rapid.OneOf(
		rapid.Just(""), rapid.StringMatching(`[ -~]{0,20}`), rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		l := line{
			At:   time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond")).UTC(),
			Term: rapid.Uint64().Draw(t, "term"), Event: text.Draw(t, "event"), Host: api.HostID(text.Draw(t, "host")),
			Instance: api.InstanceID(text.Draw(t, "instance")), Detail: text.Draw(t, "detail"),
		}
		want, err := json.Marshal(l)
		require.NoError(t, err)
		require.Equal(t, string(want), string(l.appendJSON(nil)))
	})
}

func BenchmarkJournalLine(b *testing.B) {
	l := line{At: time.Unix(1_700_000_000, 123_456_789).UTC(), Term: 7, Event: eventRunning, Host: "8f0c1c50-1111-4111-8111-000000000001", Instance: "8f0c1c50-1111-4111-8111-000000000002"}
	b.Run("appended", func(b *testing.B) {
		var text []byte
		for b.Loop() {
			text = l.appendJSON(text[:0])
		}
	})
	b.Run("marshalled", func(b *testing.B) {
		for b.Loop() {
			_, err := json.Marshal(l)
			require.NoError(b, err)
		}
	})
}
