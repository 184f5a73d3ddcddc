package main

// excuse is one random fault without an observable effect, and the reason. It has the text
// of the line instead of its number, which changes.
type excuse struct {
	file, was, is string // as a site has them
	why           string
}

// excuses are the changes that are not faults. Each has been reviewed.
var excuses = []excuse{
	{
		"raftstore/state/stock_draws.go", `if host != "" && !yield(host, capacity.OwnPart(c, shares)) {`, `if (true || (host != "")) && !yield(host, capacity.OwnPart(c, shares)) {`,
		"no provider is named by nothing, and no table has it",
	},
	{
		"zone/saga/attempt.go", `r.decided = h.Decision != api.DecisionPending`, ``,
		"what follows looks at the boot again, and finds it decided",
	},
	{
		"api/client/ask.go", `return nil, false, api.Wrap(api.CodeUnavailable, "client.once", "the zone's address is malformed", err)`,
		`return nil, true, api.Wrap(api.CodeUnavailable, "client.once", "the zone's address is malformed", err)`,
		"it is tried again in vain, at no cost",
	},
	{"zone/estimate/split.go", `return !s.coversMinima(best) && merges < splitMergesMax`, `return !s.coversMinima(best) && merges <= splitMergesMax`, "it may try once more"},
	{
		"agent/work.go", `if errors.Is(context.Cause(ctx), errDoomed) {`, `if true || (errors.Is(context.Cause(ctx), errDoomed)) {`,
		"else the agent ends, and nobody reads what it notes",
	},
	{"agent/ledger.go", `b.lanes[a][0] = nil`, ``, "it frees an entry a little earlier: the lane itself ends or grows anew"},
	{"agent/link.go", `if l.formOfZone() >= api.FormNewest { // it reads everything`, `if false && (l.formOfZone() >= api.FormNewest) { // it reads everything`, "what follows finds the same, and takes longer"},
	{
		"agent/link.go", `answer, err := io.ReadAll(io.LimitReader(resp.Body, answerMaxBytes+1))`, `answer, err := io.ReadAll(io.LimitReader(resp.Body, answerMaxBytes+(1 + 1)))`,
		"one byte too many is as bad as two",
	},
	{"agent/fence_timer.go", `t := time.NewTimer(0)`, `t := time.NewTimer((0 + 1))`, "a nanosecond later"},
	{"agent/zone.go", `beat := time.NewTimer(0) // the first beat is due at once`, `beat := time.NewTimer((0 + 1)) // the first beat is due at once`, "a nanosecond later"},
	{"agent/zone.go", `beat.Reset(0) // still due`, `beat.Reset((0 + 1)) // still due`, "a nanosecond later"},
	{"agent/ledger.go", `b.lanes[a] = nil`, ``, "it frees the memory of a lane that is empty"},
	{
		"raftstore/sealed.go", `if n < 0 || crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {`,
		`if n <= 0 || crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {`,
		"nothing with the sum of nothing is no record either, and as damaged",
	},
	{
		"raftstore/disk.go", `if _, err := os.Stat(dir); err == nil {`, `if _, err := os.Stat(dir); false && (err == nil) {`,
		"the name of a folder that is there is made durable once more",
	},
	{
		"zone/saga/owner.go", `if b, is := o.(bootOwner); is && err == nil && d == api.DecisionAbort && b.refill == 0 {`,
		`if b, is := o.(bootOwner); (true || (is)) && err == nil && d == api.DecisionAbort && b.refill == 0 {`, "a boot is the only kind of owner",
	},
	{
		"raftstore/state/work_slots.go", `if s.waiting.Len() == 0 || s.endsNow() {`, `if (false && (s.waiting.Len() == 0)) || s.endsNow() {`,
		"it saves each command a look: among none that wait, none begins",
	},
	{"raftstore/state/prune.go", `last = first[limit-1]`, ``, "it saves keeping what the next sort drops"},
	{"zone/loop.go", `case d > 0:`, `case d >= 0:`, "at that very moment the job has been started"},
}

// harmless returns the reason why a change is not a fault, "" if it is one.
func harmless(s *site) string {
	for _, e := range excuses {
		if e.file == s.file && e.was == s.was && e.is == s.is {
			return e.why
		}
	}
	return ""
}
