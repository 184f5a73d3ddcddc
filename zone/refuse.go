package zone

import (
	"context"
	"slices"
	"strings"

	"berth/api"
)

// cause is why a boot failed: a code for programs, and a sentence without it.
type cause struct {
	code api.Code
	text string
}

// unreached returns why a boot came out short, with the zones that could not be asked
// or did not answer: they may have had room.
func unreached(lacks string, p *planned) cause {
	why := cause{api.CodeNoCapacity, lacks}
	var paused []string
	for _, z := range p.zones {
		if z.Outcome == api.OutcomePaused && strings.HasPrefix(z.Reason, pausedBy) {
			paused = append(paused, z.Zone)
		}
	}
	if len(paused) > 0 {
		why.text += "; paused: " + strings.Join(paused, ", ")
	}
	if silent := p.silent(); len(silent) > 0 {
		why.code = api.CodeUnreached
		why.text += "; without an answer of: " + strings.Join(silent, ", ") + "; repeat the request"
	}
	return why
}

// silent returns the children that did not answer, or below which somebody did not.
func (p *planned) silent() []string {
	var out []string
	for _, z := range p.zones {
		if z.Outcome == api.OutcomeLate || z.Outcome == api.OutcomeFailed || z.Outcome == api.OutcomePaused && !strings.HasPrefix(z.Reason, pausedBy) {
			out = append(out, z.Zone)
		}
	}
	for _, a := range slices.Concat(p.heard, p.first) {
		if a.answer != nil && a.answer.Silent && !slices.Contains(out, a.link.Name) {
			out = append(out, a.link.Name)
		}
	}
	return out
}

// refusedPlan returns why a boot failed whose plan was taken up and came out short.
func refusedPlan(lacks string, why api.Code) cause {
	if lacks == "" {
		return cause{}
	}
	switch why { //nolint:exhaustive // the others add nothing to what is lacking
	case api.CodePlanRefused:
		return cause{why, lacks + "; a zone refused its part of the plan, which had expired or was used before: select again"}
	case api.CodePaused:
		return cause{why, lacks + "; a zone of the plan takes no new work: select again"}
	case api.CodeTimeout:
		return cause{api.CodeUnreached, lacks + "; a zone of the plan did not answer in time: select again"}
	case api.CodeContended:
		return cause{why, lacks + "; others that are not decided yet hold the room: select again"}
	}
	return cause{api.CodeNoCapacity, lacks}
}

type avoidKey struct{}

// avoiding has a plan made without some children.
func avoiding(ctx context.Context, links map[api.LinkID]bool) context.Context {
	return context.WithValue(ctx, avoidKey{}, links)
}

func avoids(ctx context.Context, l api.LinkID) bool {
	links, _ := ctx.Value(avoidKey{}).(map[api.LinkID]bool)
	return links[l]
}
