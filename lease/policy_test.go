package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/lease"
)

func TestPolicy(t *testing.T) {
	terms := func(start, end string) *api.LeaseTerms {
		return &api.LeaseTerms{Project: "astro", Window: over(t, start, end)}
	}
	longest := lease.Policy{Longest: 2 * time.Hour}
	extended := lease.Policy{Longest: 2 * time.Hour, Extension: 30 * time.Minute}
	exempt := lease.Policy{Longest: 2 * time.Hour, Exempt: []api.ProjectID{"bio", "astro"}}
	for _, c := range []struct {
		name    string
		policy  lease.Policy
		cur     *api.LeaseTerms // nil for a new lease
		now     string
		becomes *api.LeaseTerms
		says    string
	}{
		{name: "none", becomes: terms("01:00", "23:00")},
		{name: "as long as possible", policy: longest, becomes: terms("10:00", "12:00")},
		{name: "too long", policy: longest, becomes: terms("10:00", "12:01"), says: "at most 2h0m0s"},
		{name: "too long, but exempt", policy: exempt, becomes: terms("10:00", "12:01")},
		{name: "updated to as long as possible", policy: longest, cur: terms("10:00", "11:00"), becomes: terms("10:00", "12:00")},
		{name: "updated to too long", policy: longest, cur: terms("10:00", "12:00"), now: "11:59", becomes: terms("10:00", "12:01"), says: "at most 2h0m0s"},
		{name: "updated to too long, but exempt", policy: exempt, cur: terms("10:00", "12:00"), becomes: terms("10:00", "13:00")},
		{name: "longer than allowed now, and shortened", policy: longest, cur: terms("10:00", "15:00"), becomes: terms("10:00", "14:00")},
		{name: "longer than allowed now, and moved", policy: longest, cur: terms("10:00", "15:00"), becomes: terms("11:00", "16:00")},
		{name: "longer than allowed now, and only renamed", policy: longest, cur: terms("10:00", "15:00"), becomes: terms("10:00", "15:00")},
		{name: "extended within the limit at any time", policy: extended, cur: terms("10:00", "11:00"), now: "09:00", becomes: terms("10:00", "12:00")},
		{name: "extended too early", policy: extended, cur: terms("10:00", "12:00"), now: "11:29", becomes: terms("10:00", "13:00"), says: "only within 30m0s of its end"},
		{name: "extended at the first moment", policy: extended, cur: terms("10:00", "12:00"), now: "11:30", becomes: terms("10:00", "13:00")},
		{name: "extended as far as possible", policy: extended, cur: terms("10:00", "12:00"), now: "11:59", becomes: terms("10:00", "14:00")},
		{name: "extended further", policy: extended, cur: terms("10:00", "12:00"), now: "11:59", becomes: terms("10:00", "14:01"), says: "extended by at most 2h0m0s"},
		{name: "extended to the front", policy: extended, cur: terms("10:00", "12:00"), now: "11:59", becomes: terms("09:00", "12:00"), says: "only within 30m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			if c.cur == nil {
				err = c.policy.CheckCreate(c.becomes)
			} else {
				if c.now == "" {
					c.now = "09:00"
				}
				err = c.policy.CheckUpdate(c.cur, c.becomes, at(t, c.now))
			}
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			checkRefusal(t, err, api.CodeForbidden, c.says)
		})
	}
}
