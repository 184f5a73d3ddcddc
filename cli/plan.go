package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/filters"
)

// planFileMaxBytes bounds a file with a plan: an answer and its request.
const planFileMaxBytes = client.AnswerMaxBytes + api.BodyMaxBytes

// makePlan is the hint about how to make a plan.
const makePlan = "make one with: berth boot --plan --out FILE"

// planFile holds the fields that a file with a plan has in addition to the answer to a
// select: the request, and the body that boots the plan.
type planFile struct {
	Server      rest.ServerCreate `json:"server"`
	Reservation api.ReservationID `json:"reservation_id"`
	Blob        []byte            `json:"blob"`
	MadeAt      time.Time         `json:"made_at"`       // by the clock of this machine
	ExpiresInMS int64             `json:"expires_in_ms"` // from then on
}

// dryRun shows the plan of a boot of s, and saves it in the file out unless that is "".
func (e *env) dryRun(ctx context.Context, cl *client.Client, s rest.ServerCreate, out string) error {
	var body []byte
	answered := e.noteWaiting()
	a, err := cl.Select(client.WithAnswer(ctx, func(a client.Answer) { body = a.Body }), s)
	answered()
	if err != nil {
		return err
	}
	if err := e.printAnswer(body, func() []table { return planTables(a, s) }); err != nil {
		return err
	}
	if err := checkOffer(a, s); err != nil {
		return err
	}
	if out == "" {
		e.printNote("nothing was booted")
		return nil
	}
	if err := e.savePlan(out, s, body); err != nil {
		return err
	}
	e.printNote("nothing was booted; within %s this plan can be booted with: berth boot --apply %s", time.Duration(a.ExpiresInMS)*time.Millisecond, out)
	return nil
}

// kind is one kind of instances of a boot.
type kind struct {
	name         string
	wanted, need int
}

// kindsOf returns the kinds of a boot, group by group.
func kindsOf(s rest.ServerCreate) []kind {
	groups := s.Groups
	if len(groups) == 0 {
		groups = []rest.GroupCreate{{MinCount: s.MinCount, MaxCount: s.MaxCount}}
	}
	var out []kind
	for _, g := range groups {
		k := kind{name: g.Name, wanted: 1}
		switch {
		case g.MaxCount != nil:
			k.wanted = *g.MaxCount
		case g.MinCount != nil:
			k.wanted = *g.MinCount
		}
		if k.need = k.wanted; g.MinCount != nil {
			k.need = *g.MinCount
		}
		out = append(out, k)
	}
	return out
}

// checkOffer returns an error if the offer is too small for a boot of s.
func checkOffer(a rest.SelectAnswer, s rest.ServerCreate) error {
	if a.Reason != "" {
		return exitError(exitNoCapacity, "see what turned it away, and what would help, with: berth explain "+string(a.Reservation), "nothing could be booted: %s", a.Reason)
	}
	for i, k := range kindsOf(s) {
		n := 0
		if i < len(a.Weights) {
			n = len(a.Weights[i])
		}
		if n >= k.need {
			continue
		}
		of := ""
		if k.name != "" {
			of = " of group " + k.name
		}
		return exitError(exitNoCapacity, "ask for fewer, accept fewer with a lower minimum, or see why with: berth explain "+string(a.Reservation),
			"only %d of at least %s%s would fit", n, countThings(int64(k.need), "instance"), of)
	}
	return nil
}

// planTables show where the instances of a plan would be and at what cost, by zone, and
// why there are no more of them.
func planTables(a rest.SelectAnswer, s rest.ServerCreate) []table {
	var t table
	t.addRow("RESERVATION", a.Reservation)
	if a.Request != "" {
		t.addRow("REQUEST", a.Request)
	}
	for i, k := range kindsOf(s) {
		n := 0
		if i < len(a.Weights) {
			n = len(a.Weights[i])
		}
		label := "INSTANCES"
		if k.name != "" {
			label = "GROUP " + k.name
		}
		t.addRow(label, fmt.Sprintf("%d of %d wanted, at least %d", n, k.wanted, k.need))
	}
	if checkOffer(a, s) == nil { // too small a plan cannot be booted
		t.addRow("GOOD FOR", time.Duration(a.ExpiresInMS)*time.Millisecond)
	}
	return append([]table{t, whereTable(a.Zones)}, explainOffer(a, s)...)
}

// whereTable shows how many instances of a plan are in which zone. What one of them costs
// is shown as the memory that it is worth, beyond what one costs in the cheapest zone.
func whereTable(zones []rest.ZoneOutcome) table {
	t := table{header: []string{"ZONE", "INSTANCES", "COST EACH", "POINTS"}, wide: 1}
	taken, cost, least := 0, int64(0), int64(math.MaxInt64)
	for _, z := range zones {
		if z.Taken > 0 {
			taken, cost, least = taken+z.Taken, cost+z.Cost, min(least, z.Cost/int64(z.Taken))
		}
	}
	for _, z := range zones {
		if z.Taken == 0 {
			continue
		}
		each := "lowest"
		if more := z.Cost/int64(z.Taken) - least; more > 0 {
			each = "+" + roundPoints(more)
		}
		t.addRow(z.Zone, z.Taken, each, z.Cost)
	}
	t.addRow("total", taken, "", cost)
	return t
}

// explainOffer returns the tables of what each zone offered and turned away. They are a
// detail if all that is wanted is offered.
func explainOffer(a rest.SelectAnswer, s rest.ServerCreate) []table {
	kinds := kindsOf(s)
	why, all := whyTables(a.Zones, joinRefusals(a.Refusals, kinds)), true
	for i, k := range kinds {
		all = all && i < len(a.Weights) && len(a.Weights[i]) >= k.wanted
	}
	for i := range why {
		why[i].detail = all
	}
	return why
}

// joinRefusals joins refusals with the names of their groups.
func joinRefusals(refusals []rest.Refusals, kinds []kind) []rest.GroupExplanation {
	var out []rest.GroupExplanation
	for i, r := range refusals {
		t := rest.GroupExplanation{Refusals: r}
		if i < len(kinds) {
			t.Name = kinds[i].name
		}
		out = append(out, t)
	}
	return out
}

// savePlan writes the answer to a select and its request to a file that only its owner
// can read: anybody with the plan can use up its room.
func (e *env) savePlan(path string, s rest.ServerCreate, answer []byte) error {
	if _, err := os.Stat(path); err == nil {
		if _, err = readPlan(e, path); err != nil {
			return exitError(exitConflict, "choose another name", "%s exists, and holds no plan: it is not replaced", path)
		}
	}
	var all map[string]json.RawMessage
	err := json.Unmarshal(answer, &all)
	if err == nil {
		all["server"], err = json.Marshal(s)
	}
	if err == nil {
		all["made_at"], err = json.Marshal(e.now())
	}
	var b []byte
	if err == nil {
		b, err = json.MarshalIndent(all, "", "  ")
	}
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	return nil
}

// readPlan returns the body that boots the plan in the file at path.
func readPlan(e *env, path string) (planFile, error) {
	var none planFile
	b, err := readAll(e.in, path, planFileMaxBytes)
	if os.IsNotExist(err) {
		return none, exitError(exitUsage, makePlan, "reading the plan: %w", err)
	}
	var p planFile
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil || p.Reservation == "" || len(p.Blob) == 0 || p.Server.FlavorRef == "" && len(p.Server.Groups) == 0 {
		return none, exitError(exitUsage, makePlan, "%s holds no plan", path)
	}
	s := &p.Server
	s.Reservation, s.Blob, s.ReturnRes = string(p.Reservation), p.Blob, true
	return p, nil
}

// applyPlan boots the plan in a file, and returns its reservation id.
func (e *env) applyPlan(ctx context.Context, cl *client.Client, c *cobra.Command, path string) (api.ReservationID, error) {
	for _, f := range append([]string{"name", "reservation-id", "metadata", "groups", "lifetime", "decide-within"}, groupFlags...) {
		if c.Flags().Changed(f) {
			return "", usageError(c, "--%s cannot be combined with --apply", f)
		}
	}
	p, err := readPlan(e, path)
	if err != nil {
		return "", err
	}
	got, err := cl.CreateServer(ctx, p.Server, applyKey(p.Blob))
	if over := e.now().Sub(p.MadeAt) - time.Duration(p.ExpiresInMS)*time.Millisecond; api.CodeOf(err) == api.CodePlanRefused && !p.MadeAt.IsZero() && over > 0 {
		err = withHint(err, fmt.Sprintf("the plan expired %s ago; %s", over.Round(time.Second), makePlan))
	}
	return got.Reservation, err
}

// applyKey returns the idempotency key for booting a plan. It depends on the plan alone,
// so that repeating the command returns the first answer.
func applyKey(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "plan-" + hex.EncodeToString(sum[:16])
}

// tiers describes the tiers, the most final first.
var tiers = []struct {
	tier api.Tier
	text string
}{
	{api.TierInvalid, "amounts not allocatable"},
	{api.TierNotAllowed, "not allowed"},
	{api.TierNeverFits, "never suitable"},
	{api.TierNotNow, "not now"},
	{api.TierNotAsked, "excluded by the request"},
	{"", "turned away"},
}

// zoneAdvice has, for each part of the zone rule, the change to advise if that part
// alone is in the way.
var zoneAdvice = map[string]string{
	"min_zones": "asking for fewer zones would work",
	"max_skew":  "allowing a larger difference between zones would work",
	"pack":      "allowing more than one zone would work",
}

// adviceOf returns a sentence with a change that would have worked.
func adviceOf(a rest.Advice) string {
	switch a.Change {
	case api.AdviceCount:
		return fmt.Sprintf("asking for %d would work", a.Value)
	case api.AdviceLifetime:
		return fmt.Sprintf("a shorter lifetime would work: --lifetime %s", showSpan(time.Duration(a.Value)*time.Second))
	case api.AdviceAmount:
		return fmt.Sprintf("asking for %d %s per instance would work", a.Value, a.Class)
	case api.AdviceZone:
		return fmt.Sprintf("allowing zone %s would work", a.Name)
	case api.AdviceDrop:
		return cmp.Or(filters.AdviceWithout(a.Name), zoneAdvice[a.Name], fmt.Sprintf("leaving out the condition of filter %q would work", a.Name))
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", a.Change, a.Class, a.Name))
}

// whyTables show which zones took part, and how many of this zone's own hosts each filter
// turned away, the most final ones first.
func whyTables(zones []rest.ZoneOutcome, groups []rest.GroupExplanation) []table {
	var tables []table
	if len(zones) > 0 {
		t := table{header: []string{"ZONE", "OUTCOME", "WANTED", "OFFERED", "SHORT", "REASON"}}
		sum := 0
		for _, z := range zones {
			t.addRow(z.Zone, z.Outcome, z.Wanted, z.Offered, z.Short, z.Reason)
			sum += z.Offered
		}
		if len(zones) > 1 {
			t.addRow("total", "", "", sum, "", "")
		}
		tables = append(tables, t)
	}
	for i, g := range groups {
		tables = append(tables, refusalTables("This zone's own hosts"+ofGroup(groups, i), "What would have worked", g.Refusals)...)
	}
	for _, z := range zones {
		for i, r := range z.Refusals {
			tables = append(tables, refusalTables("Hosts of "+z.Zone+" and below"+ofGroup(groups, i), "What would have worked with "+z.Zone+" alone", r)...)
		}
	}
	return tables
}

// ofGroup names a group if there are several.
func ofGroup(groups []rest.GroupExplanation, i int) string {
	if len(groups) < 2 || i >= len(groups) {
		return ""
	}
	if groups[i].Name == "" {
		return fmt.Sprintf(", group %d", i+1)
	}
	return ", group " + groups[i].Name
}

// refusalTables show how many hosts were turned away, and changes that would have worked.
func refusalTables(title, worked string, r rest.Refusals) []table {
	t := table{title: title, header: []string{"HOSTS", "COUNT", "NAMES"}}
	for _, tier := range tiers {
		sum := 0
		var rows table
		for _, f := range r.Filters {
			if f.Tier == tier.tier {
				rows.addRow("  by "+f.Filter+promisedFrom(f, r), f.Hosts, strings.Join(f.Names, " "))
				sum += f.Hosts
			}
		}
		if sum > 0 {
			t.addRow(tier.text, sum, "")
			t.rows = append(t.rows, rows.rows...)
		}
	}
	t.addRow("offering", r.Offering, "")
	for _, l := range r.Limits {
		t.addRow("  limited by "+l.Filter, l.Hosts, "")
	}
	t.addRow("considered, total", r.Considered, "")
	withoutNames(&t)
	if len(r.Advice) == 0 {
		return []table{t}
	}
	advice := table{title: worked}
	for _, a := range r.Advice {
		advice.addRow(adviceOf(a))
	}
	return []table{t, advice}
}

// promisedFrom says from when on hosts are promised to others, of those that have room before.
func promisedFrom(f rest.FilterCount, r rest.Refusals) string {
	switch {
	case f.Filter != filters.NamePromised:
		return ""
	case r.Promised == 0: // a zone below does not tell
		return ", free at first and promised later"
	}
	return ", free at first and promised from " + showInstant(r.Promised) + " on"
}

// withoutNames removes the last column if it is empty.
func withoutNames(t *table) {
	last := len(t.header) - 1
	for _, row := range t.rows {
		if row[last] != stripControls("") {
			return
		}
	}
	t.header = t.header[:last]
	for i := range t.rows {
		t.rows[i] = t.rows[i][:last]
	}
}
