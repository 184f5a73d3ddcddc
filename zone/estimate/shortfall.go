package estimate

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"berth/api"
)

// DescribeShortfall describes what a request would lack of its minimum, least slots in all, if it had those that
// it holds, per group by link, and all of a room; "" for nothing. Boots, leases and plans say it in these words.
func DescribeShortfall(req *api.Request, least int, held []map[api.LinkID]int, room Room) string {
	places := maps.Clone(room.Places)
	if places == nil {
		places = map[api.LinkID]bool{}
	}
	all := 0
	for g := range req.Groups {
		have := 0
		if room.Slots != nil {
			have = room.Slots[g]
		}
		if held != nil {
			for link, n := range held[g] {
				have += n
				places[link] = places[link] || n > 0
			}
		}
		all += have
		if want := &req.Groups[g]; have < want.Min {
			return fmt.Sprintf("%d of %d%s could be had, %s needed", have, want.Count, nameOf(req, want), withVerb(want.Min))
		}
	}
	used := 0
	for _, is := range places {
		if is {
			used++
		}
	}
	switch {
	case all < least || all == 0:
		return fmt.Sprintf("%d of %d could be had, %s needed", all, req.Count(), withVerb(max(least, 1)))
	case used < req.Zones.MinZones:
		return fmt.Sprintf("zones with slots for it: %d; %s needed", used, withVerb(req.Zones.MinZones))
	}
	return ""
}

// DescribeUnreached names the zones that could not be asked for a plan, or did not answer: they may have had room. It is
// the end of a sentence, and "" if there are none.
func (p *Plan) DescribeUnreached() (text string) {
	if paused := p.Paused(); len(paused) > 0 {
		text += "; paused: " + strings.Join(paused, ", ")
	}
	if silent := p.Silent(); len(silent) > 0 {
		text += "; without an answer of: " + strings.Join(silent, ", ")
	}
	return text
}

// describeShort says what a boot of the plan would lack, "" for nothing.
func (p *Plan) describeShort(req *api.Request) string {
	short := DescribeShortfall(req, 0, nil, p.Room())
	if short == "" {
		return ""
	}
	return short + p.DescribeUnreached()
}

// withVerb returns a number and its verb.
func withVerb(n int) string {
	if n == 1 {
		return "1 is"
	}
	return strconv.Itoa(n) + " are"
}

// nameOf returns the name of a group for a sentence, if it has one.
func nameOf(req *api.Request, g *api.Group) string {
	switch {
	case g.Name == "":
		return ""
	case req.Reserves:
		return " of reservation " + g.Name
	}
	return " of group " + g.Name
}
