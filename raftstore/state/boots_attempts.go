package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// noteHold adds a hold to its boot, with the attempt that it belongs to.
func (s *bootsBook) noteHold(f slotsTaken) {
	if f.owner.Kind != ownerBoot {
		return
	}
	s.editBoot(f.owner.ID, func(b *Boot) {
		b.Holds = append(slices.Clone(b.Holds), f.hold.ID)
		attempt := api.BootAttempt{Attempt: f.hold.Attempt, Wanted: f.wanted}
		if f.outcome != nil {
			attempt = *f.outcome
		}
		attempt.Held, attempt.Refused = len(f.hold.Slots), len(f.hold.Refused)
		attempt.Contended = attempt.Contended || f.hold.Why == api.CodeContended
		b.addAttempt(attempt)
	})
}

// noteAnswers adds the answers of children to an attempt.
func (s *bootsBook) noteAnswers(f partsAnswered) {
	if f.owner.Kind != ownerBoot {
		return
	}
	s.editBoot(f.owner.ID, func(b *Boot) {
		b.editAttempt(f.hold.Attempt, func(t *api.BootAttempt) {
			t.Held += f.held
			t.Refused += f.refused
			t.Contended = t.Contended || f.hold.Why == api.CodeContended
			tellAnswers(t, f.answers)
		})
	})
}

// Tried returns the number of the last attempt.
func (b *Boot) Tried() int {
	if n := len(b.Attempts); n > 0 {
		return b.Attempts[n-1].Attempt
	}
	return 0
}

// addAttempt adds an attempt to the record. Beyond AttemptsKept it drops the oldest one
// after the first firstAttemptsKept.
func (b *Boot) addAttempt(t api.BootAttempt) {
	b.Attempts = append(slices.Clone(b.Attempts), t)
	if len(b.Attempts) > api.AttemptsKept {
		b.Attempts = slices.Delete(b.Attempts, firstAttemptsKept, firstAttemptsKept+1)
	}
}

// firstAttemptsKept is the number of first attempts that are never dropped.
const firstAttemptsKept = 2

// editAttempt changes the attempt numbered n in a copy of the boot's attempts.
func (b *Boot) editAttempt(n int, edit func(*api.BootAttempt)) {
	b.Attempts = slices.Clone(b.Attempts)
	for i := range b.Attempts {
		if b.Attempts[i].Attempt == n {
			edit(&b.Attempts[i])
		}
	}
}

// tellAnswers records in an attempt why children refused slots.
func tellAnswers(t *api.BootAttempt, answers []command.PartAnswer) {
	t.Zones = slices.Clone(t.Zones)
	for _, a := range answers {
		for i := range t.Zones {
			if z := &t.Zones[i]; z.Link == a.Link && a.Why != "" {
				z.Reason = refusedBecause(a.Why)
			}
		}
	}
}

// refusedBecause returns the explanation for a zone that refused slots.
func refusedBecause(why api.Code) string {
	switch why { //nolint:exhaustive // the others say that there is no room
	case api.CodePlanRefused:
		return "it refused its part of the plan, which had expired or was used before; select again"
	case api.CodePaused:
		return "the link takes no new work"
	case api.CodeTimeout:
		return "it did not answer in time when it was asked to hold"
	case api.CodeContended:
		return "others, not decided yet, held room that it had offered"
	case api.CodeOverQuota:
		return "the share of it that it lends its parent is used up"
	}
	return "it had no room any more for some that it had offered"
}
