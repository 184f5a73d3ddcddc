package check

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/cluster-test/check/promise"
)

// journal returns a journal of lines "event host instance", a second apart, at
// term 1; "term 5" goes to another term.
func journal(agent string, after time.Duration, lines ...string) Journal {
	j := Journal{Zone: "z", Agent: agent}
	at, term := time.Unix(1_700_000_000, 0).Add(after), uint64(1)
	for _, text := range lines {
		f := strings.Fields(text)
		at = at.Add(time.Second)
		l := Line{At: at, Term: term, Event: f[0]}
		switch {
		case f[0] == lineTerm:
			term = uint64(f[1][0] - '0')
			l.Term = term
		case len(f) > 2:
			l.Host, l.Instance, l.Detail = api.HostID(f[1]), api.InstanceID(f[2]), strings.Join(f[3:], " ")
		}
		j.Lines = append(j.Lines, l)
	}
	return j
}

func TestJournals(t *testing.T) {
	active := JournalOptions{Active: map[api.InstanceID]api.HostID{"i": "h"}, Processes: map[api.InstanceID]int{"i": 1}}
	none := JournalOptions{Active: map[api.InstanceID]api.HostID{}, Processes: map[api.InstanceID]int{"i": 1}}
	moves := JournalOptions{Moved: map[api.InstanceID]bool{"i": true}}
	returns := JournalOptions{Moved: moves.Moved, Returned: map[api.InstanceID]int{"i": 1}}
	cases := []struct {
		name string
		rule promise.Name // "" for none
		of   []Journal
		o    JournalOptions
	}{
		{"a whole life", "", []Journal{journal("a", 0, "term 2", "start h i", "running h i", "stop h i", "gone h i")}, JournalOptions{}},
		{"it runs at the end", "", []Journal{journal("a", 0, "start h i", "running h i")}, active},
		{"its agent was killed as it started", "", []Journal{journal("a", 0, "start h i")}, active},
		{"its agent was killed before it started", "", []Journal{journal("a", 0, "start h i", "start h i", "running h i")}, active},
		{"started twice", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "running h i")}, JournalOptions{}},
		{"started on two hosts", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "start g i")}, JournalOptions{}},
		{"started by two agents", promise.Once, []Journal{journal("a", 0, "start h i", "running h i"), journal("b", 9*time.Second, "start g i", "running g i")}, JournalOptions{}},
		{"perhaps started by two agents", promise.Once, []Journal{journal("b", 9*time.Second, "start g i"), journal("a", 0, "start h i")}, JournalOptions{}},
		{"failed here, started there", "", []Journal{journal("a", 0, "start h i", "failed h i"), journal("b", 9*time.Second, "start g i", "running g i")}, JournalOptions{}},
		{"started again after it ended", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "ended h i", "start h i")}, JournalOptions{}},
		{"started again after it was gone", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "gone h i", "start h i")}, JournalOptions{}},
		{"perhaps started again after it was gone", promise.Once, []Journal{journal("a", 0, "start h i", "gone h i", "start h i")}, JournalOptions{}},
		{"brought back by a backup", "", []Journal{journal("a", 0, "start h i", "running h i", "gone h i", "start h i", "running h i")}, JournalOptions{Restored: true}},
		{"twice in spite of a backup", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "start g i")}, JournalOptions{Restored: true}},
		{"moved", "", []Journal{journal("a", 0, "start h i", "running h i", "gone h i", "start g i", "running g i")}, moves},
		{"moved and not gone", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "start g i")}, moves},
		{"moved in no time", "", []Journal{journal("b", 2*time.Second, "start g i", "running g i"), journal("a", 0, "start h i", "running h i", "gone h i")}, moves},
		{"moved, and gone just after", promise.Once, []Journal{journal("b", 2*time.Second-1, "start g i", "running g i"), journal("a", 0, "start h i", "running h i", "gone h i")}, moves},
		{"its agent was killed in the start, and finds nothing of it", "", []Journal{journal("a", 0, "start h i", "absent h i"), journal("b", 9*time.Second, "start g i", "running g i")}, moves},
		{"its machine was lost, and nothing of it is there", "", []Journal{journal("a", 0, "start h i", "running h i", "absent h i"), journal("b", 9*time.Second, "start g i", "running g i")}, moves},
		{"absent from where it was not", promise.Once, []Journal{journal("a", 0, "start h i", "absent g i", "start g i")}, moves},
		{"moved to where it was", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "gone h i", "start h i")}, moves},
		{"moved away and back before it was started there", "", []Journal{journal("a", 0, "start h i", "running h i", "gone h i", "start h i", "running h i")}, returns},
		{"moved away and back, and not gone", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "start h i", "running h i")}, returns},
		{"moved away and back, and only ended", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "ended h i", "start h i")}, returns},
		{"moved away and back once, started three times", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "gone h i", "start h i", "running h i", "gone h i", "start h i")}, returns},
		{"moved away and back once, started there as well", promise.Once, []Journal{journal("a", 0,
			"start h i", "running h i", "gone h i", "start g i", "running g i", "gone g i", "start h i", "running h i", "gone h i", "start h i")}, returns},
		{"moved back, and runs twice there", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "gone h i", "start h i", "running h i", "running h i")}, returns},
		{"moved back, and runs elsewhere as well", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "gone h i", "start h i", "running h i", "start g i")}, returns},
		{"another agent starts it where it was gone", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "gone h i"), journal("b", 9*time.Second, "start h i")}, returns},
		{"stopped and started", "", []Journal{journal("a", 0, "start h i", "running h i", "halted h i", "ordered h i run 2", "start h i", "running h i")}, active},
		{"run again after it ended", "", []Journal{journal("a", 0, "start h i", "running h i", "ended h i", "ordered h i run 2", "start h i", "running h i", "halted h i", "ordered h i run 4", "start h i")}, active},
		{"run again after it could not be started", "", []Journal{journal("a", 0, "start h i", "failed h i", "ordered h i run 2", "start h i", "running h i")}, active},
		{"its agent was killed as it ran it again", "", []Journal{journal("a", 0, "start h i", "halted h i", "ordered h i run 2", "start h i", "ordered h i run 2", "start h i", "running h i")}, active},
		{"stopped, moved and started", "", []Journal{journal("a", 0, "start h i", "running h i", "halted h i", "gone h i", "ordered g i run 2", "start g i", "running g i")}, moves},
		{"started without an order", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "halted h i", "start h i")}, JournalOptions{}},
		{"run again while it runs", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "ordered h i run 2", "start h i", "running h i")}, JournalOptions{}},
		{"run again twice for one order", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "halted h i", "ordered h i run 2", "start h i", "running h i", "halted h i", "ordered h i run 2", "start h i")}, JournalOptions{}},
		{"run again for an older order", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "halted h i", "ordered h i run 3", "start h i", "running h i", "halted h i", "ordered h i run 2", "start h i")}, JournalOptions{}},
		{"run again for no order", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "halted h i", "ordered h i", "start h i")}, JournalOptions{}},
		{"run again by another agent", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "halted h i"), journal("b", 9*time.Second, "ordered g i run 2", "start g i")}, JournalOptions{}},
		{"another one moved", promise.Once, []Journal{journal("a", 0, "start h j", "running h j", "gone h j", "start g j")}, moves},
		{"evacuated", "", []Journal{journal("a", 0, "start h i", "running h i"), journal("b", 9*time.Second, "start g i", "running g i")}, JournalOptions{Evacuated: moves.Moved}},
		{"its fence has struck, and it starts again", "", []Journal{journal("a", 0, "start h i", "running h i", "fenced h i", "gone h i", "start h i", "running h i")}, JournalOptions{}},
		{"its fence has struck, and it starts elsewhere", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "fenced h i", "gone h i", "start g i")}, JournalOptions{}},
		{"the fence of another host", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "fenced g i", "gone h i", "start h i")}, JournalOptions{}},
		{"evacuated after its fence", "", []Journal{journal("a", 0, "start h i", "running h i", "fenced h i", "gone h i"), journal("b", 9*time.Second, "start g i", "running g i")}, JournalOptions{Evacuated: moves.Moved}},
		{"evacuated, and its agent comes back", "", []Journal{
			journal("a", 0, "start h i", "running h i"), journal("b", 9*time.Second, "start g i", "running g i"),
			{Agent: "a", Lines: []Line{
				{At: time.Unix(1<<31, 0), Event: lineFenced, Host: "h", Instance: "i", Detail: severed}, {At: time.Unix(1<<31, 0), Event: lineGone, Host: "h", Instance: "i"},
			}},
		}, JournalOptions{Active: map[api.InstanceID]api.HostID{"i": "g"}, Evacuated: moves.Moved}},
		{"evacuated, and gone only later", promise.Once, []Journal{journal("a", 0, "start h i", "running h i", "fenced h i"), journal("b", 9*time.Second, "start g i", "running g i"), journal("a", 15*time.Second, "gone h i")}, JournalOptions{Evacuated: moves.Moved}},
		{"evacuated as it started", promise.Once, []Journal{journal("a", 0, "start h i"), journal("b", 9*time.Second, "start g i", "running g i"), journal("a", 15*time.Second, "running h i")}, JournalOptions{Evacuated: moves.Moved}},
		{"evacuated before its fence", promise.Once, []Journal{journal("a", 0, "start h i", "running h i"), journal("b", 9*time.Second, "start g i", "running g i"), journal("a", 15*time.Second, "fenced h i")}, JournalOptions{Evacuated: moves.Moved}},
		{"active and never started", promise.Exactly, []Journal{journal("a", 0, "start h j")}, active},
		{"active and gone", promise.Exactly, []Journal{journal("a", 0, "start h i", "running h i", "gone h i")}, active},
		{"active and ended", promise.Exactly, []Journal{journal("a", 0, "start h i", "running h i", "ended h i")}, active},
		{"active elsewhere", promise.Exactly, []Journal{journal("a", 0, "start g i", "running g i")}, active},
		{"active and failed", promise.Exactly, []Journal{journal("a", 0, "start h i", "failed h i")}, active},
		{"active without a process", promise.Exactly, []Journal{journal("a", 0, "start h i", "running h i")}, JournalOptions{Active: active.Active, Processes: map[api.InstanceID]int{}}},
		{"two processes", promise.Exactly, []Journal{journal("a", 0, "start h i", "running h i")}, JournalOptions{Active: active.Active, Processes: map[api.InstanceID]int{"i": 2}}},
		{"a process that nobody wants", promise.Exactly, []Journal{journal("a", 0, "start h i", "running h i")}, none},
		{"a term that falls", promise.Fence, []Journal{journal("a", 0, "term 5", "start h i", "term 4")}, JournalOptions{}},
		{"work at a lower term", promise.Fence, []Journal{{Agent: "a", Lines: []Line{
			{At: time.Unix(1, 0), Term: 5, Event: lineTerm}, {At: time.Unix(9, 0), Term: 4, Event: lineStart, Host: "h", Instance: "i"},
		}}}, JournalOptions{}},
		{"a line that crossed a new term", "", []Journal{{Agent: "a", Lines: []Line{
			{At: time.Unix(1, 0), Term: 5, Event: lineTerm}, {At: time.Unix(1, 1000), Term: 4, Event: lineStart, Host: "h", Instance: "i"},
		}}}, JournalOptions{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			sum, bad := Journals(c.of, c.o)
			assert.Equal(t, len(c.of), sum.Agents)
			if c.rule == "" {
				require.Empty(t, bad)
				return
			}
			require.NotEmpty(t, bad)
			assert.Contains(t, rules(bad), c.rule, "%v", bad)
		})
	}
}

func TestReadJournal(t *testing.T) {
	j := Journal{Zone: "z", Agent: "a", Ends: 2}
	text := `{"at":"2026-11-20T10:00:00Z","term":3,"event":"term"}
{"at":"2026-11-20T10:00:01Z","term":3,"event":"start","host":"h","insta
{"at":"2026-11-20T10:00:02Z","term":3,"event":"start","host":"h","instance":"i"}

{"at":"2026-11-20T10:00:03Z","term":3,"event":"running","host":"h","instance":"i","detail":"x"}
{"at":"20`
	require.NoError(t, j.ReadJournal(strings.NewReader(text)))
	assert.Equal(t, 2, j.Torn)
	assert.Len(t, j.Lines, 3)
	sum, bad := Journals([]Journal{j}, JournalOptions{Active: map[api.InstanceID]api.HostID{"i": "h"}})
	assert.Empty(t, bad)
	assert.Equal(t, JournalSummary{Agents: 1, Lines: 3, Torn: 2, Started: 1, Running: 1, Terms: 1, Wanted: 1}, sum)
	j.Ends = 1
	_, bad = Journals([]Journal{j}, JournalOptions{})
	assert.Equal(t, []promise.Name{promise.Input}, rules(bad), "more lines are torn than ends of the agent can have torn")
	require.ErrorContains(t, j.ReadJournal(iotest.ErrReader(errors.New("gone"))), "journal of a")
}

// TestNothingWanted holds that a run in which nothing should run at the end says so: I7 has looked at nothing.
func TestNothingWanted(t *testing.T) {
	j := []Journal{journal("a", 0, "start h i", "running h i", "gone h i")}
	empty, bad := Journals(j, JournalOptions{Active: map[api.InstanceID]api.HostID{}, Processes: map[api.InstanceID]int{}})
	require.Empty(t, bad)
	assert.Contains(t, rules(Gate(Summary{Journals: empty}, Floor{Wanted: 1})), promise.Traffic)
	j = append(j, journal("b", 9*time.Second, "start g k", "running g k"))
	active := map[api.InstanceID]api.HostID{"k": "g"}
	one, bad := Journals(j, JournalOptions{Active: active, Processes: map[api.InstanceID]int{"k": 1}})
	require.Empty(t, bad)
	assert.Empty(t, Gate(Summary{Journals: one}, Floor{Wanted: 1}))
	_, bad = Journals(j, JournalOptions{Active: active, Processes: map[api.InstanceID]int{}})
	assert.Equal(t, []promise.Name{promise.Exactly}, rules(bad))
	_, bad = Journals(j, JournalOptions{Active: active, Processes: map[api.InstanceID]int{"k": 1, "i": 1}})
	assert.Equal(t, []promise.Name{promise.Exactly}, rules(bad))
}
