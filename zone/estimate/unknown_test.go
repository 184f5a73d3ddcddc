package estimate

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/internal/memstore"
	"berth/zone"
)

// TestWhatIsUnknownIsLoggedOnce: a node that is older than the configuration says so once for each part and each
// configuration, and not at each call.
func TestWhatIsUnknownIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	e := New(Config{Zone: zone.New(zone.Config{Store: memstore.New(), Now: time.Now, Log: slog.New(slog.NewTextHandler(&b, nil))})})
	for range 3 {
		e.noteUnknown("costs", errors.New("no cost noise"))
		e.noteUnknown("filters", errors.New("no filter moon"))
	}
	e.noteUnknown("costs", errors.New("no cost tide"))
	e.noteUnknown("costs", errors.New("no cost noise"))
	assert.Equal(t, 4, strings.Count(b.String(), "a part of the configuration is unknown here"), "%s", &b)
	assert.Equal(t, 2, strings.Count(b.String(), `part=costs error="no cost noise"`))
	assert.Equal(t, 1, strings.Count(b.String(), `part=filters error="no filter moon"`))
}
