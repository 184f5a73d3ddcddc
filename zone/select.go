package zone

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/buildplan/seal"
	"berth/costs"
	"berth/filters"
	"berth/internal/crash"
	"berth/internal/mutant"
	"berth/raftstore/state"
)

// WeightQuantum is the step to which weights are rounded down when they leave
// the zone, so that they do not fingerprint a host.
const WeightQuantum = 64

// SparesMax is how many alternates a plan carries per group, at the most.
const SparesMax = 32

// digestAgeMax is how old a digest may be and still rule a child out.
const digestAgeMax = 30 * time.Second

// planned is a plan before it is sealed, with what is told of how it came about.
type planned struct {
	layer    buildplan.Layer
	weights  [][]int64 // per group, after merging
	zones    []api.ZoneOutcome
	refusals []api.Refusals
}

// offered returns the number of slots of all groups.
func (p *planned) offered() int {
	n := 0
	for i := range p.layer.Groups {
		n += len(p.layer.Groups[i].Order)
	}
	return n
}

// Select estimates where a request would land and at what weight, and seals the
// answer for whoever asks: peer is the parent zone, or "" for a caller of this
// zone's own. It changes nothing, here or below, and any node can answer it.
func (z *Zone) Select(ctx context.Context, peer api.ZoneID, req *api.Request) (*api.SelectAnswer, error) {
	if err := checkRequest(req); err != nil {
		return nil, err
	}
	v := z.store.View()
	p := z.plan(ctx, v, req)
	ttl := cmp.Or(v.Config.PlanTTL, api.PlanTTLDefault)
	p.layer.Plan = api.PlanID(api.NewUUID())
	p.layer.Expires = z.instant().Add(ttl)
	blob, err := z.seal(v, peer, req, &p.layer)
	if err != nil {
		return nil, err
	}
	z.crash.At(crash.SelectSealed)
	for _, ws := range p.weights {
		for i := range ws {
			ws[i] -= ((ws[i] % WeightQuantum) + WeightQuantum) % WeightQuantum
		}
	}
	return &api.SelectAnswer{
		Reservation: req.Reservation, Weights: p.weights, Blob: blob, Expires: ttl,
		Zones: p.zones, Refusals: p.refusals,
	}, nil
}

// plan looks at this zone's hosts and asks its children at the same time, and
// merges what both offer. Children that seemed to be full are asked as well if
// the others leave the request short: a digest may be a few seconds old.
func (z *Zone) plan(ctx context.Context, v *state.State, req *api.Request) *planned {
	z.crash.At(crash.SelectPlanning)
	answers := make([]childAnswer, 0, len(v.Children()))
	for _, l := range v.Children() {
		answers = append(answers, z.ruleOut(l, req))
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		z.ask(ctx, answers, req, func(a *childAnswer) bool { return a.outcome == "" })
	}()
	own := buildplan.Select(z.scene(v, req), req)
	<-asked
	p := merge(v.Name, req, own, answers)
	if p.offered() < req.Count() && slices.ContainsFunc(answers, func(a childAnswer) bool { return a.full }) {
		z.ask(ctx, answers, req, func(a *childAnswer) bool { return a.full })
		p = merge(v.Name, req, own, answers)
	}
	z.crash.At(crash.SelectPlanned)
	return p
}

// scene returns what this zone's own hosts are planned on.
func (z *Zone) scene(v *state.State, req *api.Request) *buildplan.Scene {
	set, err := costs.New(v.Config.Costs)
	if err != nil { // refused when it was set, so this node is older than the configuration
		z.log.Error("configured costs are unknown here", "error", err)
		set = costs.Default()
	}
	return &buildplan.Scene{View: v.Hosts(), World: World(v, req), Filters: filters.Default(), Costs: set, Spare: SparesMax}
}

// World returns what a zone knows of its hosts beside their table. A flavor's
// command is this zone's own: a group whose flavor is not defined here, or
// differs, has none, whatever another zone says.
func World(v *state.State, req *api.Request) *filters.World {
	return &filters.World{HasCommand: func(id api.FlavorID) bool {
		f, ok := v.Flavor(id)
		return ok && len(f.Command) > 0 && !slices.ContainsFunc(req.Groups, func(g api.Group) bool {
			return g.Flavor == id && !g.Resources.Equal(f.Resources)
		})
	}}
}

// childAnswer is what one child said, or why it said nothing.
type childAnswer struct {
	link    *api.Link
	outcome string // "" until it is asked
	reason  string
	full    bool // skipped for what its digest says of free room, which may have changed
	answer  *api.SelectAnswer
}

// ask asks the children that which picks, all at once, until the budget of ctx
// less this hop's reserve has passed, and fills in their answers. A child that
// is late or fails costs its own slots only.
func (z *Zone) ask(ctx context.Context, answers []childAnswer, req *api.Request, which func(*childAnswer) bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = z.now().Add(api.SelectTimeout)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(-api.HopReserve))
	defer cancel()
	type heard struct {
		i int
		a childAnswer
	}
	heards := make(chan heard, len(answers))
	waiting := 0
	for i := range answers {
		if !which(&answers[i]) {
			continue
		}
		l := answers[i].link
		answers[i] = childAnswer{link: l, outcome: api.OutcomeLate, reason: "no answer in time"}
		waiting++
		go func() { heards <- heard{i, z.askChild(ctx, l, req)} }()
	}
	for ; waiting > 0; waiting-- {
		select {
		case h := <-heards:
			answers[h.i] = h.a
		case <-ctx.Done():
			return
		}
	}
}

// ruleOut says which children need not be asked: paused ones, and those whose
// fresh digest shows that not one slot of the request fits anywhere below.
func (z *Zone) ruleOut(l *api.Link, req *api.Request) childAnswer {
	a := childAnswer{link: l}
	if l.State == api.LinkPaused {
		a.outcome, a.reason = api.OutcomePaused, "paused by an operator of this zone"
		return a
	}
	d, age, ok := z.digests.Digest(l.Zone)
	if !ok || age > digestAgeMax {
		return a
	}
	if d.Paused {
		a.outcome, a.reason = api.OutcomePaused, "paused by its own operator"
		return a
	}
	never := true
	for i := range req.Groups {
		fits, large := mayFit(&d, &req.Groups[i], req.Class)
		if fits {
			return a
		}
		never = never && large
	}
	a.outcome, a.reason, a.full = api.OutcomeSkipped, "its digest says that it is full", !never
	if never {
		a.reason = "its digest says that nothing of this size ever fits"
	}
	return a
}

// mayFit reports whether a digest leaves room for one slot of a group, and if
// not, whether it is too large for any host there. Totals rule out what no host
// could take; a sketch of the very shape rules out what fragmentation forbids. A
// preemptible is never ruled out: the digest speaks of firm room.
func mayFit(d *api.Digest, g *api.Group, class api.Class) (fits, large bool) {
	if class == api.Preemptible || d.Partial {
		return true, false
	}
	full := false
	for c, n := range g.Resources {
		t, ok := d.Classes[c]
		if !ok || n > t.SlotMax {
			return false, len(d.Classes) > 0 // a zone without hosts may get some any moment
		}
		full = full || n > t.Free
	}
	for i := range d.Sketches {
		if sk := &d.Sketches[i]; sk.StartIn == 0 && sk.Resources.Equal(g.Resources) {
			full = full || sk.Fits == 0
		}
	}
	return !full, false
}

func (z *Zone) askChild(ctx context.Context, l *api.Link, req *api.Request) childAnswer {
	a := childAnswer{link: l, outcome: api.OutcomeAnswered}
	ans, err := z.peers.Select(ctx, l, req)
	switch {
	case err != nil && (errors.Is(err, context.DeadlineExceeded) || api.CodeOf(err) == api.CodeTimeout):
		a.outcome, a.reason = api.OutcomeLate, "no answer in time"
	case err != nil:
		z.log.Warn("child failed to select", "link", l.Name, "error", err)
		a.outcome, a.reason = api.OutcomeFailed, string(api.CodeOf(err))
	case !sound(ans, req):
		z.log.Warn("child gave an unusable answer", "link", l.Name)
		a.outcome, a.reason = api.OutcomeFailed, "unusable answer"
	default:
		a.answer = ans
	}
	return a
}

// sound reports whether a child's answer keeps to what was asked.
func sound(a *api.SelectAnswer, req *api.Request) bool {
	if len(a.Weights) != len(req.Groups) || len(a.Blob) == 0 || len(a.Blob) > api.BlobMaxBytes {
		return false
	}
	for g, ws := range a.Weights {
		if len(ws) > req.Groups[g].Count {
			return false
		}
	}
	return true
}

// merge joins own slots and the children's into one plan: per group a merge of
// heads, after each child's weights were adjusted by its link.
func merge(name string, req *api.Request, own buildplan.Plan, answers []childAnswer) *planned {
	p := &planned{weights: make([][]int64, len(req.Groups))}
	var heard []childAnswer
	for _, a := range answers {
		if a.answer != nil {
			heard = append(heard, a)
			p.layer.Children = append(p.layer.Children, buildplan.Child{Link: a.link.ID, Blob: a.answer.Blob})
		}
	}
	offers := make([][][]int64, len(req.Groups))
	for g := range offers {
		offers[g] = [][]int64{own.Groups[g].Weights()}
		for _, a := range heard {
			offers[g] = append(offers[g], buildplan.Adjust(a.answer.Weights[g], a.link.Offset, a.link.Scale))
		}
	}
	mine := 0
	for g, m := range buildplan.Merge(req, offers, nil) {
		gp := own.Groups[g]
		p.weights[g] = m.Weights
		p.layer.Groups = append(p.layer.Groups, buildplan.LayerGroup{Slots: gp.Slots, Alternates: gp.Alternates, Order: m.Order})
		p.refusals = append(p.refusals, gp.Refusals)
		mine += len(gp.Slots)
	}
	p.zones = outcomes(name, req.Count(), mine, answers)
	return p
}

// outcomes tells how each zone took part: this one first, then the children in
// the order of links.
func outcomes(name string, wanted, mine int, answers []childAnswer) []api.ZoneOutcome {
	out := []api.ZoneOutcome{{Zone: name, Outcome: api.OutcomeAnswered, Wanted: wanted, Offered: mine, Short: wanted - mine}}
	for _, a := range answers {
		n := 0
		if a.answer != nil {
			for _, ws := range a.answer.Weights {
				n += len(ws)
			}
		}
		out = append(out, api.ZoneOutcome{
			Zone: a.link.Name, Link: a.link.ID, Outcome: a.outcome, Reason: a.reason,
			Wanted: wanted, Offered: n, Short: wanted - n,
		})
	}
	return out
}

// context returns what a plan is bound to.
func (z *Zone) context(v *state.State, peer api.ZoneID, req *api.Request) seal.Context {
	return seal.Context{
		Zone: v.Zone, Peer: string(peer), Project: req.Project, Reservation: req.Reservation,
		Digest: buildplan.Digest(req),
	}
}

func (z *Zone) seal(v *state.State, peer api.ZoneID, req *api.Request, l *buildplan.Layer) ([]byte, error) {
	ring, err := z.keys.Ring(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "zone.seal", "", err)
	}
	plain, err := l.Encode()
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "zone.seal", "", err)
	}
	var salt [24]byte
	_, _ = rand.Read(salt[:]) // never fails: crypto/rand ends the process instead
	return seal.Seal(ring[0], z.context(v, peer, req), plain, salt)
}

// open reads a plan that this zone sealed for the same peer, project,
// reservation and request. Every way to fail looks the same outside; the log
// says why.
func (z *Zone) open(v *state.State, peer api.ZoneID, req *api.Request, blob []byte) (*buildplan.Layer, error) {
	ring, err := z.keys.Ring(v)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "zone.open", "", err)
	}
	plain, err := ring.Open(z.context(v, peer, req), blob)
	if err != nil {
		return nil, z.refusePlan(req, err)
	}
	l, err := buildplan.DecodeLayer(plain)
	if err != nil {
		return nil, z.refusePlan(req, err)
	}
	return &l, nil
}

func (z *Zone) refusePlan(req *api.Request, why error) error {
	z.log.Warn("plan refused", "reservation", req.Reservation, "project", req.Project, "error", why)
	if hosts := z.store.View().AllHosts(); mutant.On(mutant.HostInError) && len(hosts) > 0 {
		return api.Errorf(api.CodePlanRefused, "no room on %s", hosts[0].Name)
	}
	return api.Wrap(api.CodePlanRefused, "zone.open", api.PlanRefusedMessage, why)
}
