package agent

import (
	"errors"
	"time"

	"berth/api"
	"berth/internal/measure"
	"berth/internal/skew"
)

// Call is a call of the zone with the code of its error, "" for none.
type Call struct {
	Path string
	Code api.Code
}

// Figures is what an agent knows and has measured, for its metrics.
type Figures struct {
	Hosts     int                // that it serves, registered or not
	Instances map[api.Status]int // of their hosts, by what was last seen of them
	Skew      skew.Skew          // of the clock of this machine to the zone's
	SkewKnown bool
	Contact   time.Time                       // when the newest answered call was sent; zero for none
	Ends      time.Time                       // of its certificate; zero for none that it knows
	Calls     map[Call]measure.Distribution   // of the zone
	Actions   map[string]measure.Distribution // work on instances by what it was, retries included
}

// measures is what an agent measures.
type measures struct {
	calls   *measure.Family[Call]
	actions *measure.Family[string]
}

// actionNames are the names of actions in figures.
var actionNames = [actions]string{nothing: "nothing", start: "start", attach: "attach", notify: "notify", halt: "halt", stop: "stop", kill: "kill"}

// Figures returns what the agent knows and has measured. It may be called at any time.
func (a *Agent) Figures() Figures {
	f := Figures{Hosts: len(a.conf.Hosts), Instances: map[api.Status]int{}, Calls: a.measures.calls.Read(), Actions: a.measures.actions.Read()}
	if a.conf.Wallet != nil {
		f.Ends = a.conf.Wallet.FirstEnd()
	}
	f.Skew, f.SkewKnown = a.link.about.skew()
	a.mu.Lock()
	defer a.mu.Unlock()
	f.Contact = a.contact
	for _, h := range a.ledger.hosts {
		for _, e := range h.entries {
			if !e.isGone() {
				f.Instances[e.have]++
			}
		}
	}
	return f
}

// noteCall counts a call of the zone. A redirect to the leader has a code of its own.
func (a *Agent) noteCall(path string, sent time.Time, err error) {
	c := Call{Path: path}
	switch {
	case errors.Is(err, errMoved):
		c.Code = "moved"
	case err != nil:
		c.Code = api.CodeOf(err)
	}
	a.measures.calls.NoteTime(c, a.conf.Now().Sub(sent))
}
