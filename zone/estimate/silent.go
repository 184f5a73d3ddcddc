package estimate

import (
	"slices"
	"strings"

	"berth/api"
	"berth/zone"
)

// Paused returns the zones that were skipped because an operator has paused them. Of those that a child has skipped only
// the child is named.
func (p *Plan) Paused() []string {
	var out []string
	for _, z := range p.Zones {
		if isPaused(&z) {
			out = append(out, z.Zone)
		}
	}
	for _, a := range slices.Concat(p.heard, p.first) {
		if a.answer == nil || !a.answer.Paused {
			continue
		}
		if below := "a zone below " + a.link.Name; !slices.Contains(out, below) {
			out = append(out, below)
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

// Outlook is what is known of whether a zone that does not answer will do so soon.
type Outlook int

// Outlooks, the best one last.
const (
	Away    Outlook = iota // it has not been heard for zone.LinkFresh: it is taken for down
	Unknown                // it was never heard
	Soon                   // it was heard lately: it restarts, or has too much to do
)

// OutlookOf returns the best outlook of those zones that did not answer for a plan; Away if there are none.
func (e *Estimator) OutlookOf(p *Plan) Outlook {
	best := Away
	for i := range p.answers {
		if a := &p.answers[i]; a.isSilent() {
			best = max(best, e.outlookOf(a.link))
		}
	}
	for _, a := range slices.Concat(p.heard, p.first) {
		switch {
		case a.answer == nil || !a.answer.Silent:
		case a.answer.Soon:
			best = Soon
		default:
			best = max(best, Unknown)
		}
	}
	return best
}

// outlookOf returns the outlook of one child.
func (e *Estimator) outlookOf(l *api.Link) Outlook {
	_, _, heard := e.digests.Digest(l.Zone)
	switch {
	case e.isHeard(l):
		return Soon
	case heard || l.SilentSince != 0:
		return Away
	case e.zone.IsYoung():
		return Soon
	}
	return Unknown
}

// isHeard reports whether a child was heard lately: some node of it runs.
func (e *Estimator) isHeard(l *api.Link) bool {
	_, age, heard := e.digests.Digest(l.Zone)
	return heard && age <= zone.LinkFresh
}

// isSilent reports whether a child was asked, or is not asked because it fails, and has not answered.
func (a *childAnswer) isSilent() bool {
	return a.outcome == api.OutcomeLate || a.outcome == api.OutcomeFailed || a.outcome == api.OutcomePaused && a.reason == failing
}
