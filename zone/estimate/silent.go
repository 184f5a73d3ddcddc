package estimate

import (
	"slices"
	"strings"

	"berth/api"
)

// Paused returns the zones that were skipped because an operator has paused them.
func (p *Plan) Paused() []string {
	var out []string
	for _, z := range p.Zones {
		if isPaused(&z) {
			out = append(out, z.Zone)
		}
	}
	return out
}

// Silent returns the children that did not answer, or below which a zone did not.
func (p *Plan) Silent() []string {
	var out []string
	for _, z := range p.Zones {
		if z.Outcome == api.OutcomeLate || z.Outcome == api.OutcomeFailed || z.Outcome == api.OutcomePaused && !isPaused(&z) {
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

// isPaused reports whether an operator has paused a zone, as opposed to one that is
// skipped because it fails.
func isPaused(z *api.ZoneOutcome) bool {
	return z.Outcome == api.OutcomePaused && strings.HasPrefix(z.Reason, pausedBy)
}
