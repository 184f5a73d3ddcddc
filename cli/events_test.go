package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/api/rest"
)

// An eviction says what it is for, and until when.
func TestAboutEviction(t *testing.T) {
	e := &rest.Event{Server: "i-1", Zone: "root", Eviction: &rest.Eviction{For: rest.EvictedForLease, Reservation: "r-1", Deadline: 1_900_000_000_000}}
	assert.Equal(t, "server i-1, zone root, leaves for reservation r-1 of a lease by 2030-03-17T17:46:40Z", aboutEvent(e))
	e.Eviction.For, e.Eviction.Reservation = rest.EvictedForBoot, "r-2"
	assert.Contains(t, aboutEvent(e), "leaves for boot r-2 by")
	e.Eviction.Reservation = ""
	assert.Contains(t, aboutEvent(e), "leaves for a boot by", "of another zone")
}

func TestShownUntil(t *testing.T) {
	for until, want := range map[api.Instant]string{0: "", api.Forever: "no end", 1_900_000_000_000: "2030-03-17T17:46:40Z"} {
		assert.Equal(t, want, shownUntil(rest.Server{Preempted: rest.Preempted{Until: until}}))
	}
}
