package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"berth/api"
	"berth/cluster-test/check/promise"
)

// Line is one line of an agent's journal.
type Line struct {
	At       time.Time      `json:"at"`
	Term     uint64         `json:"term"`
	Event    string         `json:"event"`
	Host     api.HostID     `json:"host"`
	Instance api.InstanceID `json:"instance"`
	Detail   string         `json:"detail"`
}

// The events that are read here.
const (
	lineTerm    = "term"
	lineStart   = "start"
	lineRunning = "running"
	lineFailed  = "failed"
	lineEnded   = "ended"
	lineStop    = "stop"
	lineGone    = "gone"
	lineAbsent  = "absent"
	lineFenced  = "fenced"
	lineHalted  = "halted"
	lineOrdered = "ordered"
	lineRefused = "refused"
)

// Journal is all lines of one agent, in order, the older file before the newer.
type Journal struct {
	Zone, Agent string
	Lines       []Line
	Torn        int // lines that cannot be read
	// Ends is how often the agent has ended, or may have: each end may cut one line off.
	Ends int
}

// ReadJournal adds the lines of one file to j. A line that is cut off with its
// agent is counted in j.Torn.
func (j *Journal) ReadJournal(from io.Reader) error {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(text)) > 0 {
			var l Line
			if json.Unmarshal(text, &l) != nil || l.Event == "" {
				j.Torn++
			} else {
				j.Lines = append(j.Lines, l)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the journal of %s: %w", j.Agent, err)
		}
	}
}

// JournalOptions has further knowledge of a run.
type JournalOptions struct {
	// Active has the host of each instance that should run at the end: those that their
	// owning zones show as ACTIVE. nil: unknown, and I7 is not checked.
	Active map[api.InstanceID]api.HostID
	// Processes counts the processes of each instance at the end. nil: not counted. An
	// agent that is killed between a stop and its line leaves no line, so journals alone
	// cannot show that nothing runs.
	Processes map[api.InstanceID]int
	// Restored is set if a zone was restored from a backup: instances that it brought back
	// may run again after they were gone.
	Restored bool
	// Moved are the instances that may be started on another host once they are gone from
	// the old one; Evacuated, even without a report of that. Returned is how often each
	// may be started again on a host from which it is gone: it had moved on, and was sent
	// back before it was started there. See LogSummary.
	Moved, Evacuated map[api.InstanceID]bool
	Returned         map[api.InstanceID]int
}

// JournalSummary counts what Journals has checked.
type JournalSummary struct {
	Agents, Lines, Torn                          int
	Started, Running, Failed, Gone, Terms, Stale int // lines by event; Stale: answers that were refused
	Wanted                                       int // instances that should run at the end, and were looked for
}

// noteSlack is how much later than a higher term a line may be written that was
// made before it: an agent reads its term, and then writes.
const noteSlack = time.Second

// run is the history of one instance according to the journals.
type run struct {
	agent string
	host  api.HostID
	ran   int
	asked bool // a start began, with an unknown outcome
	over  bool // it ended, or nothing of it is left
	gone  bool
	cut   bool                // its fence has expired, and it may start again where it was
	left  api.HostID          // where it ran before
	dead  bool                // it ended there with its agent
	been  map[api.HostID]bool // where it was started before
	back  int                 // number of starts on a host where it had been before

	ordered uint64 // the latest run that its owner has ordered and an agent has begun
}

// severed is the text that an agent writes for a fence that expired when an earlier agent
// ended: long before the line.
const severed = "its agent ended"

// Journals checks that an instance id runs at most once over all hosts of all
// zones, that exactly the wanted instances run at the end, once each, and that no agent
// goes back to a lower term. A start with an unknown outcome counts as a run as soon as
// another host starts the same id.
func Journals(journals []Journal, o JournalOptions) (JournalSummary, []Violation) {
	l := &list{}
	sum := JournalSummary{Agents: len(journals)}
	runs := map[api.InstanceID]*run{}
	for _, e := range inTime(journals) {
		sum.countEvent(e.line.Event)
		if e.line.Instance == "" {
			continue
		}
		r := runs[e.line.Instance]
		if r == nil {
			r = &run{agent: e.agent, host: e.line.Host}
			runs[e.line.Instance] = r
		}
		r.followLine(l, e, o)
	}
	for _, j := range journals {
		sum.Torn += j.Torn
		if j.Torn > j.Ends {
			l.putViolation(Violation{Rule: promise.Input, Zone: j.Zone, Text: fmt.Sprintf("%d lines of agent %s cannot be read, and it has ended %d times", j.Torn, j.Agent, j.Ends)})
		}
		checkTerms(l, j)
	}
	if o.Active != nil {
		sum.Wanted = len(o.Active)
		checkEnds(l, runs, o)
	}
	return sum, l.all
}

func (s *JournalSummary) countEvent(event string) {
	s.Lines++
	switch event {
	case lineStart:
		s.Started++
	case lineRunning:
		s.Running++
	case lineFailed:
		s.Failed++
	case lineGone:
		s.Gone++
	case lineTerm:
		s.Terms++
	case lineRefused:
		s.Stale++
	}
}

// event is one line and its agent.
type event struct {
	zone, agent string
	line        Line
}

// inTime returns all lines by time; lines of one agent keep their order. Of lines of the same
// time, which only a clock of a simulation gives to two agents, those that begin a start are last:
// an instance may be gone and be started elsewhere in no time.
func inTime(journals []Journal) []event {
	var all []event
	next, last := make([]int, len(journals)), make([]time.Time, len(journals))
	for {
		first := -1
		for n, j := range journals {
			if next[n] == len(j.Lines) {
				continue
			}
			if at := j.Lines[next[n]].At; at.After(last[n]) { // a clock that was set back must not reverse the order
				last[n] = at
			}
			if first < 0 || last[n].Before(last[first]) || last[n].Equal(last[first]) &&
				journals[first].Lines[next[first]].Event == lineStart && j.Lines[next[n]].Event != lineStart {
				first = n
			}
		}
		if first < 0 {
			return all
		}
		j := journals[first]
		ln := j.Lines[next[first]]
		ln.At = last[first]
		next[first]++
		all = append(all, event{j.Zone, j.Zone + "/" + j.Agent, ln})
	}
}

// followLine folds in one line of an instance.
func (r *run) followLine(l *list, e event, o JournalOptions) {
	once := func(format string, args ...any) {
		l.putViolation(Violation{Rule: promise.Once, Zone: e.zone, Text: fmt.Sprintf("instance %s ", e.line.Instance) + fmt.Sprintf(format, args...)})
	}
	if r.left == e.line.Host && r.host != r.left && e.line.Event != lineStart && e.line.Event != lineRunning {
		if r.wasThere(e.line) {
			once("was still on host %s when it was started on host %s", r.left, r.host)
		}
		return
	}
	r.goOn(e, o, once)
	switch e.line.Event {
	case lineStart:
		if r.over && r.ran > 0 {
			once("is started again on host %s after it had run", e.line.Host)
		}
		r.asked = true
	case lineRunning:
		if r.ran++; r.ran > 1 {
			once("was started %d times", r.ran)
		}
		r.asked, r.over, r.gone = false, false, false
	case lineFailed:
		r.asked = false
	case lineFenced:
		r.cut = r.cut || r.host == e.line.Host && r.agent == e.agent
	case lineEnded, lineHalted:
		r.ran, r.over, r.asked = max(r.ran, 1), true, false
	case lineOrdered:
		r.takeOrder(e, o, once)
	case lineGone:
		if r.asked { // the start succeeded
			r.ran = max(r.ran, 1)
		}
		r.asked, r.over, r.gone = false, true, true
	case lineAbsent: // an earlier agent was killed in its start, or later with its machine
		if r.host == e.line.Host && r.agent == e.agent && (r.asked || r.ran > 0) {
			r.asked, r.over, r.gone = false, true, true
		}
	}
}

// takeOrder lets an instance run again where it has ended, for an order of its owner. Each order is for a
// run of its own: it is carried out once.
func (r *run) takeOrder(e event, o JournalOptions, once func(format string, args ...any)) {
	var n uint64
	if _, err := fmt.Sscanf(e.line.Detail, "run %d", &n); err != nil {
		once("is to run again, and the order has no number: %q", e.line.Detail)
	}
	here := r.host == e.line.Host && r.agent == e.agent
	if !o.Restored && (n < r.ordered || n == r.ordered && here && r.ran > 0) {
		once("is started twice for the order to begin run %d", n)
	}
	r.ordered = n
	if !here {
		return
	}
	if r.ran > 0 && !r.over {
		once("is to begin run %d, and still runs", n)
	}
	r.ran, r.asked, r.over, r.gone = 0, false, false, false
}

// goOn handles a new start of an instance, or a start on another host.
func (r *run) goOn(e event, o JournalOptions, once func(format string, args ...any)) {
	if e.line.Event == lineStart {
		r.startAnew(e, o)
	}
	if (r.host != e.line.Host || r.agent != e.agent) && (e.line.Event == lineStart || e.line.Event == lineRunning) {
		if r.ran > 0 || r.asked {
			once("is started on host %s by %s, and was on host %s by %s", e.line.Host, e.agent, r.host, r.agent)
		}
		r.host, r.agent = e.line.Host, e.agent
	}
}

// startAnew resets r as if the instance had never run, if that is allowed.
func (r *run) startAnew(e event, o JournalOptions) {
	next := run{agent: e.agent, host: e.line.Host, left: r.host, been: r.been, back: r.back, ordered: r.ordered}
	switch elsewhere := r.host != e.line.Host; {
	case r.mayStartAnew(e, o):
		if elsewhere && r.been[next.host] {
			next.back++
		}
	case r.mayReturn(e, o):
		next.left, next.dead = r.left, r.dead
		next.back++
	default:
		return
	}
	if next.been == nil {
		next.been = map[api.HostID]bool{}
	}
	next.been[r.host], next.been[next.host] = true, true
	*r = next
}

// wasThere reports whether a line of the host that an instance has left shows that it was
// there until then. An instance that an agent finds dead from an earlier one was not.
func (r *run) wasThere(l Line) bool {
	r.dead = r.dead || l.Event == lineFenced && l.Detail == severed
	return !r.dead && (l.Event == lineFenced || l.Event == lineGone || l.Event == lineEnded || l.Event == lineHalted)
}

// mayStartAnew reports whether an instance may start as if it had never run: a backup
// brought it back, its fence has struck, or it has moved.
func (r *run) mayStartAnew(e event, o JournalOptions) bool {
	elsewhere := r.host != e.line.Host
	return r.cut && !elsewhere || o.Restored && r.gone || o.Moved[e.line.Instance] && r.gone && elsewhere || o.Evacuated[e.line.Instance] && elsewhere
}

// mayReturn reports whether an instance may start again on the host where it is gone:
// the log has taken it away from there and brought it back, once for each time.
func (r *run) mayReturn(e event, o JournalOptions) bool {
	return r.gone && r.host == e.line.Host && r.agent == e.agent && r.back < o.Returned[e.line.Instance]
}

// checkTerms checks that an agent's terms rise, and that it acts only at the highest one.
func checkTerms(l *list, j Journal) {
	var high uint64
	var since time.Time
	for _, ln := range j.Lines {
		late := ln.At.Sub(since) > noteSlack
		if ln.Term < high && (late || ln.Event == lineTerm) {
			l.putViolation(Violation{Rule: promise.Fence, Zone: j.Zone, Text: fmt.Sprintf("agent %s: %q of %s at term %d, after term %d",
				j.Agent, ln.Event, ln.Instance, ln.Term, high)})
			return
		}
		if ln.Term > high {
			high, since = ln.Term, ln.At
		}
	}
}

// checkEnds compares the wanted with the running instances at the end.
func checkEnds(l *list, runs map[api.InstanceID]*run, o JournalOptions) {
	bad := func(format string, args ...any) {
		l.putViolation(Violation{Rule: promise.Exactly, Text: fmt.Sprintf(format, args...)})
	}
	for id, host := range o.Active {
		switch r := runs[id]; {
		case r == nil:
			bad("instance %s is ACTIVE, and no agent ever started it", id)
		case r.over:
			bad("instance %s is ACTIVE, and its agent says that it ended", id)
		case r.host != host:
			bad("instance %s is ACTIVE on host %s, and was started on host %s", id, host, r.host)
		case r.ran == 0 && !r.asked:
			bad("instance %s is ACTIVE, and could not be started", id)
		}
		if n := o.Processes[id]; o.Processes != nil && n != 1 {
			bad("instance %s is ACTIVE and runs %d times", id, n)
		}
	}
	for id, n := range o.Processes {
		if _, wanted := o.Active[id]; !wanted && n > 0 {
			bad("instance %s runs %d times, and no zone says that it should", id, n)
		}
	}
}
