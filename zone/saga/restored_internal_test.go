package saga

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
)

// TestOnlyWhatIsNotedIsLogged: a restore of a child that was noted before, or that could not be noted, makes no line.
func TestOnlyWhatIsNotedIsLogged(t *testing.T) {
	for name, c := range map[string]struct {
		link api.LinkID
		c    command.LinkRestored
		fail api.Code
		says string
	}{
		"a restore":                      {"l", command.LinkRestored{Restored: 6}, "", "a child went back to a backup"},
		"one that was noted":             {"l", command.LinkRestored{Restored: 5}, "", ""},
		"one that never was":             {"l", command.LinkRestored{Restored: 4, Was: 5}, "", "does not confirm"},
		"one of which others were first": {"l", command.LinkRestored{Restored: 4, Was: 9}, "", ""},
		"of a child that has left":       {"gone", command.LinkRestored{Restored: 6}, api.CodeNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var lines bytes.Buffer
			store := memstore.New()
			store.Must(t,
				command.Init{Stamp: command.Stamp{At: 1}, Zone: "z", Name: "zone"},
				command.LinkPut{Link: api.Link{ID: "l", Name: "kid", Role: api.LinkChild, Zone: "k", State: api.LinkActive, Scale: 1}},
				command.LinkRestored{ID: "l", Restored: 5},
			)
			s := New(Config{Zone: zone.New(zone.Config{Store: store, Now: time.Now, Log: slog.New(slog.NewTextHandler(&lines, nil))}), Digests: silence{}})
			err := s.noteRestored(context.Background(), &api.Link{ID: c.link, Name: "kid"}, c.c)
			assert.Equal(t, c.fail, api.CodeOf(err))
			if c.says == "" {
				assert.Empty(t, lines.String())
			} else {
				assert.Contains(t, lines.String(), c.says)
			}
		})
	}
}
