package estimate

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"berth/api"
	"berth/filters"
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

// DescribePromised says how many hosts have room for a group that came out short when its window opens, and are promised
// to others later; from when on, if that is known. It is the end of a sentence for callers of this zone, and "" for none.
func (p *Plan) DescribePromised(req *api.Request) string {
	for g := range p.Refusals {
		if len(p.Layer.Groups[g].Order) >= req.Groups[g].Count {
			continue
		}
		hosts := filters.PromisedHosts(&p.Refusals[g])
		for i := range p.Zones {
			if g < len(p.Zones[i].Refusals) {
				hosts += filters.PromisedHosts(&p.Zones[i].Refusals[g])
			}
		}
		if hosts == 0 {
			continue
		}
		text := fmt.Sprintf("; hosts that are free at first and promised to others later: %d", hosts)
		if at := p.Refusals[g].Promised; at != 0 {
			text += ", from " + at.Time().UTC().Format("2006-01-02 15:04 UTC")
		}
		return text
	}
	return ""
}

// describeShort says what a boot of the plan would lack, "" for nothing.
func (p *Plan) describeShort(req *api.Request) string {
	short := DescribeShortfall(req, 0, nil, p.Room())
	if short == "" {
		return ""
	}
	if req.Origin == "" {
		short += p.DescribePromised(req)
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
