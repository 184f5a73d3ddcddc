package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/agent/driver/fake"
	"berth/api"
)

// bookOf returns the ledger of hosts whose driver has been listed, and has nothing.
func bookOf(d driver.Driver, hosts ...api.HostID) *ledger {
	drivers := make([]driver.Driver, len(hosts))
	for n := range drivers {
		drivers[n] = d
	}
	b := newLedger(hosts, drivers)
	b.applyStates(d, 0, nil)
	return b
}

// list has a list of host h come in answer to what b asks now.
func (b *ledger) list(generation uint64, instances ...api.Workload) {
	b.applyLists(listing("h", generation, instances...), b.nextQuestion(), time.Time{})
}

// put makes e the entry of instance a on host h, as if it had come to that.
func (b *ledger) put(e entry) *entry {
	e.host, e.work.Instance = "h", "a"
	kept := b.entryOf(b.hosts["h"], "h", "a")
	*kept = e
	b.hosts["h"].listed = true
	return kept
}

const (
	active  = api.StatusActive
	shutoff = api.StatusShutoff
	failed  = api.StatusError
	deleted = api.StatusDeleted
)

// TestWhatAnEntryNeeds: the action that follows from each state, and from each that differs from it in one thing.
func TestWhatAnEntryNeeds(t *testing.T) {
	w := func(changes ...func(*api.Workload)) api.Workload {
		var out api.Workload
		for _, c := range changes {
			c(&out)
		}
		return out
	}
	stops := func(w *api.Workload) { w.Stop = true }
	halts := func(w *api.Workload) { w.Halt = true }
	again := func(w *api.Workload) { w.Runs = 2 }
	uses := func(w *api.Workload) { w.Volumes = []api.InstanceID{"v"} }
	leaves := func(w *api.Workload) { w.Stop, w.Notice = true, &api.PreemptNotice{Left: time.Minute} }
	due := time.Unix(1_000, 0)
	for name, c := range map[string]struct {
		e    entry
		want action
	}{
		"new":                             {entry{listed: true}, start},
		"new and under way":               {entry{listed: true, busy: true}, nothing},
		"new after a fence":               {entry{listed: true, stale: true}, nothing},
		"new but stopped by its owner":    {entry{listed: true, work: w(halts)}, nothing},
		"new but to be stopped":           {entry{listed: true, work: w(stops)}, nothing},
		"not listed and not here":         {entry{}, nothing},
		"gone and listed again":           {entry{listed: true, have: deleted}, start},
		"gone":                            {entry{have: deleted}, nothing},
		"runs":                            {entry{listed: true, have: active}, nothing},
		"runs in its run":                 {entry{listed: true, have: active, runs: 2, work: w(again)}, nothing},
		"runs and is busy":                {entry{have: active, busy: true}, nothing},
		"runs unlisted":                   {entry{have: active}, stop},
		"runs unlisted, had another run":  {entry{have: active, work: w(again)}, stop},
		"runs unlisted, was stopped":      {entry{have: active, work: w(halts)}, stop},
		"runs unlisted with a notice":     {entry{have: active, work: w(leaves)}, stop},
		"runs unlisted with volumes":      {entry{have: active, work: w(uses)}, stop},
		"runs and is to be stopped":       {entry{listed: true, have: active, work: w(stops)}, stop},
		"is to be stopped in another run": {entry{listed: true, have: active, work: w(stops, again)}, stop},
		"is to be stopped, and halted":    {entry{listed: true, have: active, work: w(stops, halts)}, stop},
		"is to be stopped, with volumes":  {entry{listed: true, have: active, work: w(stops, uses)}, stop},
		"runs and was stopped":            {entry{listed: true, have: active, work: w(halts)}, halt},
		"runs in the run before":          {entry{listed: true, have: active, runs: 1, work: w(again)}, halt},
		"runs before, after a fence":      {entry{listed: true, have: active, runs: 1, stale: true, work: w(again)}, halt},
		"runs, with other volumes":        {entry{listed: true, have: active, work: w(uses)}, attach},
		"runs, with its volumes":          {entry{listed: true, have: active, attached: []api.InstanceID{"v"}, work: w(uses)}, nothing},
		"runs, with volumes too many":     {entry{listed: true, have: active, attached: []api.InstanceID{"v"}}, attach},
		"ended, with other volumes":       {entry{listed: true, have: shutoff, work: w(uses)}, nothing},
		"ended":                           {entry{listed: true, have: shutoff}, nothing},
		"ended, and ordered again":        {entry{listed: true, have: shutoff, runs: 1, work: w(again)}, start},
		"failed, and ordered again":       {entry{listed: true, have: failed, runs: 1, work: w(again)}, start},
		"ended, ordered, but stopped":     {entry{listed: true, have: shutoff, runs: 1, work: w(again, halts)}, nothing},
		"ended, ordered, after a fence":   {entry{listed: true, have: shutoff, runs: 1, stale: true, work: w(again)}, nothing},
		"ended, ordered, unlisted":        {entry{have: shutoff, runs: 1, work: w(again)}, stop},
		"ended in that run":               {entry{listed: true, have: shutoff, runs: 2, work: w(again)}, nothing},
		"ended and halted":                {entry{listed: true, have: shutoff, work: w(halts)}, nothing},
		"ended unlisted":                  {entry{have: failed}, stop},
		"ended with a notice":             {entry{listed: true, have: shutoff, work: w(leaves), due: due}, stop},
		"leaves":                          {entry{listed: true, have: active, work: w(leaves), due: due}, notify},
		"leaves and knows":                {entry{listed: true, have: active, work: w(leaves), due: due, noticed: due}, nothing},
		"leaves a little sooner":          {entry{listed: true, have: active, work: w(leaves), due: due, noticed: due.Add(noticeStep - 1)}, nothing},
		"leaves sooner":                   {entry{listed: true, have: active, work: w(leaves), due: due, noticed: due.Add(noticeStep)}, notify},
		"leaves at once":                  {entry{listed: true, have: active, work: w(leaves), due: due, overdue: true}, kill},
		"lapsed":                          {entry{listed: true, have: active, lapsed: true}, kill},
		"lapsed before it ran":            {entry{listed: true, lapsed: true}, kill},
		"lapsed and busy":                 {entry{listed: true, have: active, lapsed: true, busy: true}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			b := bookOf(fake.New(fake.Options{}), "h")
			e := b.put(c.e)
			assert.Equal(t, c.want, b.decideAction(e))
			b.hosts["h"].listed = false
			assert.Equal(t, nothing, b.decideAction(e), "without a list of its host")
			b.hosts["h"].listed = true
			clear(b.known)
			assert.Equal(t, nothing, b.decideAction(e), "before its driver was listed")
		})
	}
}

// TestAnInstanceElsewhere: one is not started while the other host of its agent has, or may have, it.
func TestAnInstanceElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		other entry
		want  action
	}{
		"never here":     {entry{}, start},
		"gone":           {entry{have: deleted}, start},
		"runs":           {entry{have: active}, nothing},
		"ended":          {entry{have: shutoff}, nothing},
		"busy":           {entry{busy: true}, nothing},
		"lapsed":         {entry{lapsed: true}, nothing},
		"overdue":        {entry{overdue: true}, nothing},
		"gone, and busy": {entry{have: deleted, busy: true}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			b := bookOf(fake.New(fake.Options{}), "h", "h2")
			e := b.put(entry{listed: true})
			other := b.entryOf(b.hosts["h2"], "h2", "a")
			c.other.host, c.other.work.Instance = "h2", "a"
			*other = c.other
			assert.Equal(t, c.want, b.decideAction(e))
		})
	}
}

// TestWhatIsReported: a state that the zone does not have, once nothing is due that changes it.
func TestWhatIsReported(t *testing.T) {
	again, stopped, leaves := api.Workload{Runs: 2}, api.Workload{Halt: true}, api.Workload{Stop: true}
	for name, c := range map[string]struct {
		e    entry
		want bool
	}{
		"runs":                           {entry{listed: true, have: active}, true},
		"runs, and was told":             {entry{listed: true, have: active, told: active}, false},
		"another fault":                  {entry{listed: true, have: failed, fault: "x", told: failed, toldFault: "y"}, true},
		"the fault that was told":        {entry{listed: true, have: failed, fault: "x", told: failed, toldFault: "x"}, false},
		"another restart":                {entry{listed: true, have: active, told: active, restarted: 2, toldAgain: 1}, true},
		"the restart that was told":      {entry{listed: true, have: active, told: active, restarted: 2, toldAgain: 2}, false},
		"runs, and its fence is over":    {entry{listed: true, have: active, lapsed: true}, false},
		"runs, and its notice is over":   {entry{listed: true, have: active, overdue: true}, false},
		"nothing is known of it":         {entry{listed: true}, false},
		"gone":                           {entry{have: deleted}, true},
		"gone, as it should be":          {entry{listed: true, have: deleted, work: leaves}, true},
		"gone, and was told":             {entry{have: deleted, told: deleted}, false},
		"gone, and being started":        {entry{have: deleted, busy: true}, false},
		"gone, and wanted":               {entry{listed: true, have: deleted}, false},
		"gone, as its owner has it":      {entry{listed: true, have: deleted, work: stopped}, false},
		"runs unlisted":                  {entry{have: active}, false},
		"is to be stopped":               {entry{listed: true, have: active, work: leaves}, false},
		"was stopped, and runs yet":      {entry{listed: true, have: active, work: stopped}, false},
		"was stopped, and does not run":  {entry{listed: true, have: shutoff, work: stopped}, true},
		"runs in the run before":         {entry{listed: true, have: active, runs: 1, work: again}, false},
		"ended in the run before":        {entry{listed: true, have: shutoff, runs: 1, work: again}, false},
		"ended in its run":               {entry{listed: true, have: shutoff, runs: 2, work: again}, true},
		"runs, and volumes are attached": {entry{listed: true, have: active, busy: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := bookOf(fake.New(fake.Options{}), "h")
			assert.Equal(t, c.want, b.mustReport(b.put(c.e)))
		})
	}
}

// straying is a driver on whose machine another agent has started something.
type straying struct{ *fake.Driver }

func (straying) HasStray(api.InstanceID) bool { return true }

// TestWhatAListMakesOfAnEntry: what is to end and is not here has ended already, unless something of it runs all the same, or
// a call goes on that may yet change that.
func TestWhatAListMakesOfAnEntry(t *testing.T) {
	leaves, stopped, both := api.Workload{Stop: true}, api.Workload{Halt: true}, api.Workload{Stop: true, Halt: true}
	for name, c := range map[string]struct {
		e       entry
		stray   bool // another agent has started it
		unknown bool // its driver has not been listed yet
		want    api.Status
		absent  int // lines for the journal
		forgot  bool
	}{
		"to be stopped, and not here":      {e: entry{listed: true, work: leaves}, want: deleted, absent: 1},
		"both, and not here":               {e: entry{listed: true, work: both}, want: deleted, absent: 1},
		"to be stopped, and unknown":       {e: entry{listed: true, work: leaves}, unknown: true},
		"to be stopped, and being started": {e: entry{listed: true, busy: true, work: leaves}},
		"to be stopped, and lapsed":        {e: entry{listed: true, lapsed: true, work: leaves}},
		"to be stopped, and overdue":       {e: entry{listed: true, overdue: true, work: leaves}},
		"to be stopped, and ended":         {e: entry{listed: true, have: shutoff, work: leaves}, want: shutoff},
		"to be stopped, and gone":          {e: entry{listed: true, have: deleted, work: leaves}, want: deleted},
		"was to be stopped":                {e: entry{work: leaves}, forgot: true},
		"was to be stopped, unknown":       {e: entry{work: leaves}, unknown: true, forgot: true},
		"wanted":                           {e: entry{listed: true}},
		"stopped, and not here":            {e: entry{listed: true, fault: "x", runs: 7, work: stopped}, want: shutoff},
		"stopped, and gone":                {e: entry{listed: true, have: deleted, work: stopped}, want: shutoff},
		"stopped, and unknown":             {e: entry{listed: true, work: stopped}, unknown: true},
		"stopped, and being started":       {e: entry{listed: true, busy: true, work: stopped}},
		"stopped, and lapsed":              {e: entry{listed: true, lapsed: true, work: stopped}},
		"stopped, and runs":                {e: entry{listed: true, have: active, work: stopped}, want: active},
		"stopped, and failed":              {e: entry{listed: true, have: failed, work: stopped}, want: failed},
		"was stopped":                      {e: entry{work: stopped}, forgot: true},
		"gone":                             {e: entry{have: deleted, told: deleted}, forgot: true, want: deleted},
		"gone, and not told":               {e: entry{have: deleted}, want: deleted},
		"not here, but busy":               {e: entry{busy: true}},
		"not here, but lapsed":             {e: entry{lapsed: true}},
		"runs, and not listed":             {e: entry{have: active}, want: active},
		"stray, to be stopped":             {e: entry{listed: true, work: leaves}, stray: true, want: active},
		"stray, stopped":                   {e: entry{listed: true, work: stopped}, stray: true, want: active},
		"stray, unknown":                   {e: entry{listed: true, work: leaves}, stray: true, unknown: true},
		"stray, wanted":                    {e: entry{listed: true}, stray: true},
		"stray, busy":                      {e: entry{listed: true, busy: true, work: leaves}, stray: true},
		"stray, gone":                      {e: entry{listed: true, have: deleted, work: leaves}, stray: true, want: deleted},
		"stray, not listed":                {e: entry{work: leaves}, stray: true, forgot: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := driver.Driver(fake.New(fake.Options{}))
			if c.stray {
				d = straying{fake.New(fake.Options{})}
			}
			b := bookOf(d, "h")
			e := b.put(c.e)
			if c.unknown {
				clear(b.known)
			}
			b.placeEntry(e)
			assert.Equal(t, c.want, e.have)
			assert.Len(t, b.absent, c.absent)
			assert.Equal(t, c.forgot, b.hosts["h"].entries["a"] == nil)
			assert.Equal(t, c.forgot, b.every["a"] == nil)
			if c.want == shutoff && c.e.have != shutoff {
				assert.Empty(t, e.fault)
				assert.Zero(t, e.runs, "it has not run here")
			}
			e.have = active
			b.placeEntry(e)
			assert.Equal(t, c.forgot, b.hosts["h"].entries["a"] == nil, "what was forgotten does not come back")
		})
	}
}

// TestWhatMakesTheWatchLookAgain: an entry with a fence or a deadline, and no other.
func TestWhatMakesTheWatchLookAgain(t *testing.T) {
	for name, c := range map[string]struct {
		e    entry
		want bool
	}{
		"neither":    {entry{listed: true}, false},
		"a fence":    {entry{listed: true, work: api.Workload{Fence: 1}}, true},
		"a deadline": {entry{listed: true, due: time.Unix(1, 0)}, true},
	} {
		b := bookOf(fake.New(fake.Options{}), "h")
		e := b.put(c.e)
		b.placeEntry(e)
		assert.Equal(t, c.want, b.recheck, name)
		b.recheck = true
		b.placeEntry(b.put(entry{listed: true}))
		assert.True(t, b.recheck, "it is not forgotten")
	}
}

// TestAnAcknowledgementOfWhatIsForgotten changes nothing, and that of another stay neither.
func TestAnAcknowledgementOfWhatIsForgotten(t *testing.T) {
	b := bookOf(fake.New(fake.Options{}), "h")
	b.list(1, fenced("a"))
	b.endCall(b.nextEntry(start), active, "")
	items := b.pendingReports(1)
	require.Len(t, items, 1)
	b.lapseFences(testFence)
	e := b.nextEntry(kill)
	b.list(2)
	e.lapsed = false
	b.endCall(e, "", "")
	require.Empty(t, b.hosts["h"].entries)
	b.noteAcked(items)
	assert.Empty(t, b.hosts["h"].entries)
	assert.Empty(t, b.pendingReports(1))
}

// TestHostsOfALedger: it serves exactly these.
func TestHostsOfALedger(t *testing.T) {
	b := newLedger([]api.HostID{"h1", "h2"}, make([]driver.Driver, 2))
	for _, c := range []struct {
		ids  []api.HostID
		want bool
	}{
		{[]api.HostID{"h1", "h2"}, true}, {[]api.HostID{"h2", "h1"}, true}, {[]api.HostID{"h1"}, false}, {nil, false},
		{[]api.HostID{"h1", "h3"}, false}, {[]api.HostID{"h1", "h2", "h3"}, false},
	} {
		assert.Equal(t, c.want, b.servesHosts(c.ids), c.ids)
	}
}

// TestWhatIsForgottenStaysSo: a late acknowledgement of an instance that was forgotten does not forget that which is listed since.
func TestWhatIsForgottenStaysSo(t *testing.T) {
	b := bookOf(fake.New(fake.Options{}), "h")
	b.list(1, fenced("a"))
	b.endCall(b.nextEntry(start), active, "")
	items := b.pendingReports(1)
	b.lapseFences(testFence)
	e := b.nextEntry(kill)
	b.list(2)
	e.lapsed = false
	b.endCall(e, "", "")
	b.list(3, fenced("a"))
	anew := b.hosts["h"].entries["a"]
	require.NotSame(t, e, anew)
	b.noteAcked(items)
	assert.Same(t, anew, b.hosts["h"].entries["a"])
	assert.Same(t, anew, b.nextEntry(start))
}

// TestAReportHasEachOnce: an instance that changes twice before it is reported is in the report once.
func TestAReportHasEachOnce(t *testing.T) {
	b := bookOf(fake.New(fake.Options{}), "h")
	b.list(1, work("a"))
	b.endCall(b.nextEntry(start), active, "")
	b.applyStates(b.hosts["h"].driver, b.seq, []driver.State{{Host: "h", Instance: "a", Status: failed, Fault: "x"}})
	assert.Equal(t, []api.InstanceReport{{Host: "h", Instance: "a", Status: failed, Fault: "x"}}, b.pendingReports(2))
}

// TestTheShortestFence of all that were ever listed.
func TestTheShortestFence(t *testing.T) {
	b := bookOf(fake.New(fake.Options{}), "h")
	for n, c := range []struct{ fence, want time.Duration }{{0, 0}, {20, 20}, {10, 10}, {30, 10}, {0, 10}, {1, 1}, {2, 1}} {
		w := work("a")
		w.Fence = c.fence
		b.list(uint64(n+1), w)
		assert.Equal(t, c.want, b.shortest, "list %d", n)
	}
}

// TestWhatAListMakesOfWhatWasTold: another stay has been told nothing, nor has one that was gone before the list was requested and is
// listed to be stopped yet.
func TestWhatAListMakesOfWhatWasTold(t *testing.T) {
	for name, c := range map[string]struct {
		told api.Status
		stop bool
		stay uint64
		ack  uint64 // of what was told
		want api.Status
	}{
		"runs":                         {active, false, 1, 3, active},
		"runs in another stay":         {active, false, 2, 3, ""},
		"is to be stopped":             {active, true, 1, 3, active},
		"gone, in an answer of before": {deleted, true, 1, 4, deleted},
		"gone, and listed again":       {deleted, true, 1, 3, ""},
		"gone, and listed long after":  {deleted, true, 1, 2, ""},
		"ended, and to be stopped":     {shutoff, true, 1, 3, shutoff},
		"gone, and wanted again":       {deleted, false, 1, 3, deleted},
	} {
		b := bookOf(fake.New(fake.Options{}), "h")
		b.acks = 3
		asked := b.nextQuestion()
		e := b.put(entry{listed: true, have: c.told, told: c.told, ack: c.ack, work: api.Workload{Stay: 1}})
		b.applyLists(listing("h", 1, api.Workload{Instance: "a", Stay: c.stay, Stop: c.stop}), asked, time.Time{})
		assert.Equal(t, c.want, e.told, name)
	}
}

// TestWhatADriverListMakesOfAnEntry: what ended is told for the journal, what is missing is lost, and what has a call, or had one since
// the driver was asked, stays as it is.
func TestWhatADriverListMakesOfAnEntry(t *testing.T) {
	const mark = 5
	state := func(st api.Status) []driver.State {
		return []driver.State{{Host: "h", Instance: "a", Status: st, Fault: "f", Runs: 7, Volumes: []api.InstanceID{"v"}}}
	}
	for name, c := range map[string]struct {
		e           entry
		states      []driver.State
		have        api.Status
		ended       int
		again, kept bool // the driver is listed again; the rest of the entry is as it was
	}{
		"runs":                         {entry{have: active}, state(active), active, 0, false, false},
		"was not known":                {entry{}, state(active), active, 0, false, false},
		"ended":                        {entry{have: active}, state(shutoff), shutoff, 1, false, false},
		"failed":                       {entry{have: active}, state(failed), failed, 1, false, false},
		"had ended":                    {entry{have: shutoff}, state(shutoff), shutoff, 0, false, false},
		"ended, and its fence too":     {entry{have: active, lapsed: true}, state(shutoff), shutoff, 0, false, false},
		"ended, and its notice too":    {entry{have: active, overdue: true}, state(shutoff), shutoff, 0, false, false},
		"is missing":                   {entry{have: active}, nil, "", 0, false, false},
		"had ended, and is missing":    {entry{have: shutoff}, nil, "", 0, false, false},
		"had failed, and is missing":   {entry{have: failed, fault: "own"}, nil, failed, 0, false, true},
		"was gone":                     {entry{have: deleted, fault: "own"}, nil, deleted, 0, false, true},
		"was started since":            {entry{have: active, fault: "own", seq: mark + 1}, nil, active, 0, false, true},
		"was started at the time":      {entry{have: active, seq: mark}, nil, "", 0, false, false},
		"ended, and had a call since":  {entry{have: active, fault: "own", seq: mark + 1}, state(shutoff), active, 0, true, true},
		"runs, and had a call since":   {entry{have: active, fault: "own", seq: mark + 1}, state(active), active, 0, false, true},
		"runs, and a call of the time": {entry{have: active, fault: "own", seq: mark}, state(active), active, 0, false, false},
		"ended during a call":          {entry{have: active, fault: "own", busy: true}, state(shutoff), active, 0, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := fake.New(fake.Options{})
			b := bookOf(d, "h")
			c.e.listed = true
			e := b.put(c.e)
			ended, strange := b.applyStates(d, mark, c.states)
			assert.Equal(t, c.have, e.have)
			assert.Len(t, ended, c.ended)
			assert.Empty(t, strange)
			assert.Equal(t, c.again, b.again[d])
			assert.Equal(t, c.e.busy, e.doubt)
			switch {
			case c.kept:
				assert.Equal(t, "own", e.fault)
			case c.states == nil:
				assert.Empty(t, e.fault)
			default:
				assert.Equal(t, "f", e.fault)
				assert.Equal(t, uint64(7), e.runs)
				assert.Equal(t, []api.InstanceID{"v"}, e.attached)
			}
			if e.busy {
				b.calls++
				b.endCall(e, shutoff, "")
				assert.True(t, b.again[d], "it is listed again afterwards")
				assert.False(t, e.doubt)
			}
		})
	}
}

// TestStatesOfOtherHosts are strange: those of hosts that are not served, and those of hosts that another driver serves.
func TestStatesOfOtherHosts(t *testing.T) {
	d, other := fake.New(fake.Options{}), fake.New(fake.Options{})
	b := newLedger([]api.HostID{"h", "h2"}, []driver.Driver{d, other})
	all := []driver.State{{Host: "h", Instance: "a", Status: active}, {Host: "h2", Instance: "b", Status: active}, {Host: "h3", Instance: "c", Status: active}}
	ended, strange := b.applyStates(d, 0, all)
	assert.Empty(t, ended)
	assert.Equal(t, all[1:], strange)
	assert.Equal(t, map[driver.Driver]bool{d: true}, b.known)
	assert.Empty(t, b.hosts["h2"].entries)
	b.applyStates(other, 0, all[1:2])
	b.applyStates(d, 0, nil)
	assert.Equal(t, active, b.hosts["h2"].entries["b"].have, "that of another driver is not missing")
}

// TestWhatAnAcknowledgementSays: what was in the report, of the stay that it names, and when it came.
func TestWhatAnAcknowledgementSays(t *testing.T) {
	report := api.InstanceReport{Host: "h", Instance: "a", Status: failed, Fault: "f", Stay: 2, Restarted: 9, Reason: api.RestartFenced}
	for stay, want := range map[uint64]bool{2: true, 3: false, 0: false} {
		b := bookOf(fake.New(fake.Options{}), "h")
		b.acks = 4
		e := b.put(entry{listed: true, have: failed, fault: "f", restarted: 9, reason: api.RestartFenced, work: api.Workload{Stay: stay}})
		b.placeEntry(e)
		b.noteAcked([]api.InstanceReport{report})
		assert.Equal(t, want, e.told == failed && e.toldFault == "f" && e.toldAgain == 9 && e.ack == 5, "stay %d", stay)
		pending := b.pendingReports(1)
		assert.Equal(t, want, len(pending) == 0, "stay %d", stay)
		if !want {
			report := report
			report.Stay = stay
			assert.Equal(t, []api.InstanceReport{report}, pending)
		}
	}
}

// TestAllIsToldAgain after markUntold, in the order of hosts and ids, a number at a time.
func TestAllIsToldAgain(t *testing.T) {
	b := bookOf(fake.New(fake.Options{}), "h1", "h2")
	manyEntries(b, 10, func(int) entry { return entry{listed: true, have: failed, fault: "f", told: failed, toldFault: "f"} })
	assert.Empty(t, b.pendingReports(10))
	b.markUntold()
	var told []string
	for range 4 {
		items := b.pendingReports(3)
		for _, i := range items {
			told = append(told, string(i.Host)+"/"+string(i.Instance))
		}
		b.noteAcked(items)
	}
	assert.Len(t, told, 10)
	assert.IsIncreasing(t, told)
	assert.Empty(t, b.pendingReports(1))
	assert.Empty(t, b.say)
}
