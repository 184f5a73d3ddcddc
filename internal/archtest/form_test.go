package archtest

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/buildplan"
	"berth/gossip"
	"berth/internal/codec"
)

// TestNewFieldsAreGated: these are sent or kept without asking which forms the reader
// reads. Before one of them gets a field with a form, whoever writes it must ask. A digest
// has some: federation.FollowForms asks. So has api.Node: the node asks, and what its leader admits is gated.
func TestNewFieldsAreGated(t *testing.T) {
	for _, v := range []any{api.Enrolment{}, gossip.Hello{}, buildplan.Layer{}} {
		assert.False(t, codec.HasForms(v), "%T", v)
	}
	assert.Equal(t, uint8(api.FormFirst), codec.NeededForm(api.Digest{Sketches: []api.FitSketch{{Price: new(int64(0))}}}.WithoutPrices()))
	assert.True(t, codec.HasForms(api.Link{}), "a type that is gated, so that the test can fail")
}
