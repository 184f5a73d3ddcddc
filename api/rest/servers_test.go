package rest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/api/rest"
)

func TestWhatIsShownOfPreemptibles(t *testing.T) {
	i := api.NewInstance(&api.InstanceTerms{Class: api.Firm, Way: api.PreemptByHint}, api.InstanceSpec{}, "")
	assert.Zero(t, rest.PreemptedOf(i))
	i.Class = api.Preemptible
	assert.Equal(t, rest.Preempted{
		PreemptTerms: rest.PreemptTerms{Preemptible: true, By: api.PreemptByHint, OnPreempt: api.PreemptStop},
	}, rest.PreemptedOf(i))
	i.OnPreempt = api.PreemptRequeue
	i.ChangeExtras(func(x *api.InstanceExtras) { x.Eviction = &api.Eviction{For: "r", At: 5, By: 9} })
	assert.Equal(t, rest.Preempted{
		PreemptTerms: rest.PreemptTerms{Preemptible: true, By: api.PreemptByHint, OnPreempt: api.PreemptRequeue},
		Eviction:     &rest.Eviction{For: rest.EvictedForBoot, Reservation: "r", At: 5, Deadline: 9},
	}, rest.PreemptedOf(i))
	i.Eviction.Lease = true
	assert.Equal(t, rest.EvictedForLease, rest.PreemptedOf(i).Eviction.For)
}
