package zone

import (
	"context"
	"slices"
	"strings"

	"berth/api"
)

// unreached returns why a boot came out short, with the zones that could not be asked
// or did not answer: they may have had room.
func unreached(lacks string, p *planned) string {
	var paused []string
	for _, z := range p.zones {
		if z.Outcome == api.OutcomePaused && strings.HasPrefix(z.Reason, pausedBy) {
			paused = append(paused, z.Zone)
		}
	}
	silent := p.silent()
	if len(paused) > 0 {
		lacks += "; paused: " + strings.Join(paused, ", ")
	}
	if len(silent) > 0 {
		lacks = recoded(lacks, api.CodeUnreached) + "; without an answer of: " + strings.Join(silent, ", ") + "; repeat the request"
	}
	return lacks
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
func refusedPlan(lacks string, why api.Code) string {
	if lacks == "" {
		return ""
	}
	switch why { //nolint:exhaustive // the others add nothing to what is lacking
	case api.CodePlanRefused:
		return recoded(lacks, why) + "; a zone refused its part of the plan, which had expired or was used before: select again"
	case api.CodePaused:
		return recoded(lacks, why) + "; a zone of the plan takes no new work: select again"
	case api.CodeTimeout:
		return recoded(lacks, api.CodeUnreached) + "; a zone of the plan did not answer in time: select again"
	case api.CodeContended:
		return recoded(lacks, why) + "; others that are not decided yet hold the room: select again"
	}
	return lacks
}

// recoded returns a reason with another code in front.
func recoded(reason string, code api.Code) string {
	return string(code) + ":" + strings.TrimPrefix(reason, string(api.CodeNoCapacity)+":")
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
