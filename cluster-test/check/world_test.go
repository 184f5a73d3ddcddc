package check

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

const began api.Instant = 1_700_000_000_000

// world draws commands for one zone, most of which make sense, and keeps the
// log that they make. Names are few, so that they meet.
type world struct {
	dice    *rand.Rand
	s       *state.State
	now     api.Instant
	entries []Entry
	expiry  map[api.PlanID]api.Instant
	n       int  // commands so far; makes fresh names
	grow    bool // take fresh names for boots and instances

	drawn map[command.Kind]int // commands that were applied and not refused
}

func newWorld(seed uint64) *world {
	w := &world{dice: rand.New(rand.NewPCG(seed, 9)), s: state.New(), now: began, expiry: map[api.PlanID]api.Instant{}, drawn: map[command.Kind]int{}}
	w.add(command.Init{
		Stamp: w.stamp(), Zone: "z", Name: "zone", Admin: api.Token{ID: "t", Hash: []byte{1}, Expires: api.Forever},
		Epoch: command.Epoch{ID: []byte("e000"), Wrapped: []byte{2}}, CA: []byte{3}, CAKey: []byte{4},
	})
	for i := range 6 {
		w.add(w.hostPut(fmt.Sprint("h", i), 8))
	}
	for _, l := range []string{"up", "c1", "c2"} {
		role := api.LinkChild
		if l == "up" {
			role = api.LinkParent
		}
		w.add(command.LinkPut{Stamp: w.stamp(), Link: api.Link{
			ID: api.LinkID(l), Name: l, Role: role, Zone: api.ZoneID("zone-" + l), State: api.LinkActive, Scale: 1, CA: []byte(l),
		}})
	}
	w.share()
	return w
}

func (w *world) stamp() command.Stamp {
	w.now++
	if w.roll(8) == 0 {
		w.now += api.Instant(w.roll(50))
	}
	return command.Stamp{At: w.now}
}

func (w *world) roll(n int) int { return w.dice.IntN(n) }

func pick[T any](w *world, of ...T) T { return of[w.roll(len(of))] }

// add applies commands as one entry, as they are read from it.
func (w *world) add(cmds ...command.Command) state.Result {
	index := uint64(len(w.entries) + 1)
	var raw []byte
	var r state.Result
	for _, c := range cmds {
		b, err := command.Encode(c, api.FormNewest)
		if err == nil {
			c, err = command.Decode(b, api.FormNewest)
		}
		if err != nil {
			panic(err)
		}
		raw = append(binary.AppendUvarint(raw, uint64(len(b))), b...)
		w.n++
		r = w.s.Apply(index, c)
		if r.Err == nil {
			w.drawn[c.Kind()]++
		}
	}
	w.entries = append(w.entries, Entry{Index: index, Term: 1, Data: raw})
	return r
}

func (w *world) log() ZoneLog {
	return ZoneLog{Zone: "z", Nodes: []NodeLog{{Node: "n1", Committed: uint64(len(w.entries)), Entries: w.entries}}}
}

// step adds one entry of one command or some.
func (w *world) step() {
	var cmds []command.Command
	for range 1 + max(0, w.roll(8)-5) {
		cmds = append(cmds, w.draw())
	}
	if w.roll(10) == 0 {
		cmds = append(cmds, w.lose()...)
	}
	if w.roll(30) == 0 {
		cmds = append(cmds, w.parties()...)
	}
	if w.roll(6) == 0 {
		cmds = append(cmds, w.power())
	}
	if w.roll(40) == 0 { // an entry of Raft's own
		w.entries = append(w.entries, Entry{Index: uint64(len(w.entries) + 1), Term: 1, Type: 1})
	}
	w.add(cmds...)
	if w.roll(4) == 0 {
		w.preempt()
	}
}

func (w *world) hostPut(id string, cpus int64) command.HostsPut {
	inv := map[api.ResourceClass]api.Inventory{
		api.VCPU:     {Total: cpus},
		api.MemoryMB: {Total: cpus * 10, Reserved: 3, AllocationRatio: 15_000, StepSize: 2},
		api.DiskGB:   {Total: cpus},
	}
	return command.HostsPut{Stamp: w.stamp(), Agent: "a1", Hosts: []command.HostEntry{{
		ID: api.HostID(id), Host: api.AgentHost{Name: id, Driver: "fake", Pool: api.PoolShared, Inventory: inv},
	}}, Whole: w.n > 20 && w.n%64 == 0} // rarely: then its agent serves nothing else
}

func (w *world) hostID() api.HostID { return api.HostID(fmt.Sprint("h", w.roll(6))) }
func (w *world) boot() api.ReservationID {
	if all := w.s.UndecidedBoots(); len(all) > 0 && w.roll(3) > 0 {
		return pick(w, all...).Request.Reservation
	}
	return api.ReservationID(fmt.Sprint("r", w.roll(6)))
}

func (w *world) ids(most int) (out []api.InstanceSpec) {
	for range w.roll(most + 1) {
		id := fmt.Sprint("i", w.roll(60))
		if w.grow {
			id = fmt.Sprintf("i%d-%d", w.n, len(out))
		}
		out = append(out, api.InstanceSpec{ID: api.InstanceID(id), Name: id})
	}
	return out
}

func (w *world) request(r api.ReservationID) api.Request {
	req := api.Request{
		Reservation: r, Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: int64(1 + w.roll(3)), api.MemoryMB: int64(2 + 2*w.roll(4))}}},
	}
	switch w.roll(6) {
	case 0:
		req.Window.End = w.now + api.Instant(w.roll(300))
	case 1:
		req.Window.Start = w.now + api.Instant(w.roll(200))
		req.Window.End = req.Window.Start + api.Instant(w.roll(300))
	case 2, 3:
		req.Class, req.OnPreempt = api.Preemptible, pick(w, "", api.PreemptRequeue, api.PreemptRequeue)
	case 4:
		req.Preempt = true
	}
	if w.roll(4) == 0 {
		req.Groups[0].Resources["CUSTOM_A"] = int64(1 + w.roll(2))
	}
	if w.roll(3) == 0 {
		req.Groups[0].ExtraSpecs = map[string]string{"berth:evacuate": "true"}
	}
	if w.roll(8) == 0 && req.Window.End == api.Forever {
		req.Lifetime = time.Duration(1+w.roll(300)) * time.Millisecond
	}
	if r[len(r)-1]%2 == 0 { // a boot and its holds have as many groups
		req.Groups = append(req.Groups, req.Groups[0])
		req.Groups[w.roll(2)].Min = w.roll(2)
		w.volumes(&req)
	}
	w.rule(&req)
	if len(req.Groups) > 1 && req.Groups[1].AttachTo != "" && len(w.entries)%3 > 0 {
		req.Rules, req.Zones.Pack = append(req.Rules, api.Rule{Policy: api.Affinity, Groups: []int{0, 1}, Pairs: true}), true
	}
	return req
}

// volumes makes the second group one of volumes, or leaves it.
func (w *world) volumes(req *api.Request) {
	if req.Class != api.Firm || w.roll(2) == 0 {
		return
	}
	g := &req.Groups[1]
	req.Groups[0].Name = "web"
	*g = api.Group{Count: 1, Min: g.Min, Name: "data", Volume: "standard", Resources: api.Resources{api.DiskGB: int64(1 + w.roll(3))}}
	if w.roll(2) == 0 {
		g.AttachTo = "web"
	}
}

// attach draws an attachment, mostly of what is on one host, or its end.
func (w *world) attach() command.Command {
	page := state.Page{Limit: 40}
	all := w.s.InstancesPage(state.InstanceQuery{Volumes: true, Page: page})
	if len(all) == 0 {
		return w.hold()
	}
	vol := pick(w, all...)
	if w.roll(2) == 0 {
		for _, v := range all {
			if v.Attached != "" && w.roll(2) == 0 {
				vol = v
			}
		}
		return command.VolumeDetach{Stamp: w.stamp(), Volume: vol.ID, Instance: pick(w, "", vol.Attached, w.instance())}
	}
	to := w.instance()
	if w.roll(4) > 0 { // one that can be attached, if there is one
		for _, v := range all {
			for _, i := range w.s.OnHost(v.Host) {
				if v.Attached == "" && i.Volume == "" && i.Tenant() == v.Tenant() {
					vol, to = v, i.ID
				}
			}
		}
	}
	return command.VolumeAttach{Stamp: w.stamp(), Volume: vol.ID, Instance: to}
}

// rule gives a request rules, or none. A server group has one policy.
func (w *world) rule(req *api.Request) {
	groups := []int{0}
	if len(req.Groups) > 1 {
		groups = []int{0, 1}
	}
	if req.Reservation == "r1" {
		req.Rules = append(req.Rules, api.Rule{Policy: api.AntiAffinity, Max: 1, Groups: groups})
	}
	switch w.roll(6) {
	case 0:
		req.Rules = append(req.Rules, api.Rule{ID: "together", Policy: api.Affinity, Groups: groups})
	case 1:
		req.Rules = append(req.Rules, api.Rule{ID: "apart", Policy: api.AntiAffinity, Max: 2, Groups: groups[:1]})
	}
	switch w.roll(16) {
	case 0:
		req.Zones.MinZones = 2
	case 1:
		req.Zones.Pack = true
	case 2:
		req.Zones.MaxSkew = 1
	}
}

// draw returns the next command.
func (w *world) draw() command.Command {
	switch w.roll(37) {
	case 32, 33, 35, 36:
		return w.attach()
	case 31:
		return w.binding()
	case 30, 34:
		return w.requeue()
	case 24, 25, 26, 27, 28, 29:
		return w.placement()
	case 0:
		return w.hostPut(fmt.Sprint("h", w.roll(6)), int64(2+w.roll(9)))
	case 1:
		return command.HostsState{Stamp: w.stamp(), State: pick(w, api.HostUp, api.HostUp, api.HostUp, api.HostDown), Hosts: []api.HostID{w.hostID(), w.hostID()}}
	case 2:
		on, h := w.roll(5) > 0, w.hostID()
		c := command.HostSet{Stamp: w.stamp(), ID: h, Enabled: &on}
		if got, ok := w.s.Host(h); ok && w.roll(2) == 0 {
			c.Generation = got.Generation - uint64(w.roll(2))
		}
		return c
	case 3:
		if w.roll(4) > 0 {
			return w.reports()
		}
		return command.HostDelete{Stamp: w.stamp(), ID: w.hostID()}
	case 4, 5:
		return w.create()
	case 6, 7, 8, 9:
		return w.hold()
	case 10:
		return w.parts()
	case 11:
		h := w.someHold()
		c := command.HoldDecide{Stamp: w.stamp(), ID: h.ID, Origin: h.Origin, Decision: w.decision(), Forced: w.roll(4) == 0}
		if len(w.entries)%2 == 0 {
			for _, rule := range h.Request.Rules {
				c.Lifted = append(c.Lifted, rule.ID)
			}
		}
		return c
	case 12, 13:
		c := command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: w.boot(), Decision: w.decision()}
		if c.Decision == api.DecisionAbort {
			c.Code = pick(w, "", api.CodeTimeout, api.CodeNoCapacity)
		}
		return c
	case 14:
		return command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: w.boot()}
	case 15:
		h := w.someHold()
		c := command.PartAck{Stamp: w.stamp(), ID: h.ID, Origin: h.Origin, Link: pick[api.LinkID](w, "c1", "c2"), Decision: h.Decision, Lost: w.roll(4) == 0, Lifted: len(h.Lifted)}
		if len(w.entries)%5 == 0 {
			c.Lifted = 0
		}
		return c
	case 16:
		return command.InstanceDelete{Stamp: w.stamp(), ID: w.instance()}
	case 17:
		return w.reports()
	case 18:
		return w.changes()
	case 19, 20:
		return w.move()
	case 21, 22:
		return w.operator()
	}
	switch w.roll(3) {
	case 0:
		since := max(0, w.now-api.Instant(w.roll(100)-10)) * api.Instant(w.roll(2))
		return command.LinkSet{Stamp: w.stamp(), ID: pick[api.LinkID](w, "c1", "c2", "up"), Silent: &since}
	case 1:
		c := command.InstanceTold{Stamp: w.stamp(), Gone: []api.InstanceID{w.instance(), w.instance()}}
		return c
	}
	return command.Prune{Stamp: w.stamp(), Before: w.now - api.Instant(w.roll(400)), BeforeAbroad: w.now - api.Instant(w.roll(400)), BeforeDead: w.now - api.Instant(w.roll(400)), Limit: w.roll(20)}
}

// lose loses a host, ends some of what may be lost with it, and moves the rest to another one.
func (w *world) lose() []command.Command {
	h, to := w.hostID(), w.hostID()
	out := []command.Command{command.HostsState{Stamp: w.stamp(), State: api.HostDown, Hosts: []api.HostID{h}}}
	for _, i := range w.s.OnHost(h) {
		if i.Movable && w.roll(4) == 0 {
			out = append(out, command.InstanceDelete{Stamp: w.stamp(), ID: i.ID})
		}
		out = append(out, command.InstanceMove{Stamp: w.stamp(), ID: i.ID, From: h, To: to, Evacuate: true})
	}
	silent := command.HostsSilent{Stamp: w.stamp(), Hosts: []command.SilentHost{{ID: h, Since: out[0].Time()}, {ID: to, Since: out[0].Time()}}}
	if was, ok := w.s.Host(h); ok && was.DownSince > 0 {
		silent.Hosts[0].Since = was.DownSince
	}
	out = append(out, silent)
	if w.roll(3) == 0 {
		out = append(out, w.writeOff(h, silent.Hosts[0].Since)...)
	}
	return append(out, w.hostPut(string(h), 8))
}

// writeOff gives up what is left on a lost host, or one instance of it.
func (w *world) writeOff(h api.HostID, since api.Instant) []command.Command {
	c := command.HostWriteOff{Stamp: w.stamp(), ID: h, Since: since}
	if on := w.s.OnHost(h); len(on) > 0 && w.roll(2) == 0 {
		c.Instance = pick(w, on...).ID
	}
	return []command.Command{c}
}

// preempt boots something firm for the parent where a preemptible instance is that wants to be
// booted again, lets go who must leave, and has a leader look for room for them.
func (w *world) preempt() {
	var soft []*api.Instance
	for _, i := range w.s.InstancesPage(state.InstanceQuery{Page: state.Page{Limit: 200}}) {
		if i.Host != "" && i.Origin == "" && i.OnPreempt == api.PreemptRequeue && i.Live() && i.Eviction == nil {
			soft = append(soft, i)
		}
	}
	if len(soft) == 0 {
		return
	}
	h, id := pick(w, soft...).Host, fmt.Sprint("e", w.n)
	req := api.Request{
		Reservation: api.ReservationID(id), Project: "p", Class: api.Firm, Preempt: true, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: int64(3 + w.roll(6))}}},
	}
	w.add(command.Hold{
		Stamp: w.stamp(), ID: api.HoldID(id), Origin: "up", Attempt: 1, Request: req, Expires: api.Forever, Commit: true,
		Slots: []command.Slot{{Instance: api.InstanceSpec{ID: api.InstanceID(id), Name: id}, Host: h}},
	})
	gone := command.InstanceReport{Stamp: w.stamp(), Agent: "a1"}
	for _, i := range w.s.OnHost(h) {
		if i.Eviction != nil && w.roll(4) > 0 || string(i.ID) == id && w.roll(4) > 0 {
			gone.Items = append(gone.Items, api.InstanceReport{Host: h, Instance: i.ID, Status: api.StatusDeleted})
		}
	}
	w.add(gone)
	for range w.roll(5) {
		w.add(w.requeue())
	}
}

func (w *world) move() command.InstanceMove {
	c := command.InstanceMove{Stamp: w.stamp(), ID: w.instance(), From: w.hostID(), To: w.hostID(), Evacuate: w.roll(2) == 0}
	if i, ok := w.s.Instance(c.ID); ok && w.roll(8) > 0 {
		c.From = i.Host
	}
	for _, i := range w.s.OnHost(c.From) { // some of those that are there go with it
		if w.roll(4) == 0 {
			c.With = append(c.With, i.ID)
		}
	}
	return c
}

// power draws what the owner of an instance wants of its process, mostly of one on a host of the zone and at
// its present run.
func (w *world) power() command.InstancePower {
	c := command.InstancePower{Stamp: w.stamp(), ID: w.instance(), Order: pick(w, api.PowerStop, api.PowerStop, api.PowerStart, api.PowerRestart, "sleep"), Run: 1}
	if on := w.s.OnHost(w.hostID()); len(on) > 0 {
		c.ID = pick(w, on...).ID
	}
	if i, ok := w.s.Instance(c.ID); ok {
		c.Run = i.Run() + uint64(w.roll(9)/8) - min(i.Runs, uint64(w.roll(9)/8))
	}
	return c
}

// operator draws what an operator says.
func (w *world) operator() command.Command {
	at, id := w.stamp(), pick(w, "x", "y", "z")
	switch w.roll(9) {
	case 8:
		return w.webhook(at)
	case 0, 1:
		reason, drain := pick(w, "", "", "disk"), pick(w, "", api.DrainMove, "never")
		c := command.HostSet{Stamp: at, ID: w.hostID(), Maintenance: &reason, Overrides: map[string]string{"rack": pick(w, "", "1", "2")}}
		if w.roll(3) == 0 {
			c.Drain = &drain
		}
		return c
	case 2, 3:
		a := api.Aggregate{ID: api.AggregateID(id), Name: pick(w, id, "n"), Hosts: []api.HostID{w.hostID(), w.hostID()}}
		if w.roll(2) == 0 {
			a.Metadata = map[string]string{api.MetaAZ: pick(w, "az1", "az2")}
		}
		return command.AggregatePut{Stamp: at, Aggregate: a, Replace: w.roll(2) == 0}
	case 4:
		return command.AggregateDelete{Stamp: at, ID: api.AggregateID(id)}
	case 5:
		return command.ConfigSet{Stamp: at, Config: api.ZoneConfig{
			DefaultAZ: pick(w, "", "az1"), Costs: []api.CostWeight{{Name: "x"}}, Leases: api.LeaseRule{Cleaning: pick(w, 0, 5*time.Millisecond)},
			HidesLayout: len(w.entries)%2 == 0, PublicAttributes: []string{"rack"}[:len(w.entries)/2%2],
		}}
	case 6:
		costs := make([]api.CostWeight, pick(w, 1, 2, api.FiltersMax+1))
		return command.SchedulerSet{Stamp: at, Scheduler: api.Scheduler{Costs: costs}}
	}
	if w.roll(3) == 0 {
		return command.GroupDelete{Stamp: at, Project: "p", ID: api.ServerGroupID(id)}
	}
	return command.GroupPut{Stamp: at, Group: api.ServerGroup{ID: api.ServerGroupID(id), Name: pick(w, id, "n"), Project: "p", Policy: api.Affinity}}
}

// webhook draws a command about webhooks.
func (w *world) webhook(at command.Stamp) command.Command {
	name, id := pick(w, "a", "b"), pick[api.WebhookID](w, "w1", "w2")
	switch w.roll(8) {
	case 0, 1:
		return command.WebhookDelete{Stamp: at, Project: "p", Name: name}
	case 2:
		return command.WebhookResume{Stamp: at, Project: "p", Name: name}
	case 3, 4:
		return command.WebhookPut{Stamp: at, Webhook: api.Webhook{ID: id, Name: name, Project: "p", URL: "https://example.org/", Secret: []byte{1}}}
	}
	t := api.WebhookTold{Project: "p", Name: name, ID: id, Told: w.s.EventsEnd()}
	if w.roll(3) == 0 {
		t.Failed, t.Reason, t.Told = true, "it is away", api.EventID{Index: uint64(w.roll(len(w.entries)))}
	}
	return command.WebhooksTold{Stamp: at, Webhooks: []api.WebhookTold{t}}
}

func (w *world) decision() api.Decision {
	return pick(w, api.DecisionCommit, api.DecisionCommit, api.DecisionAbort)
}

func (w *world) create() command.BootCreate {
	r := api.ReservationID(fmt.Sprint("r", w.roll(6)))
	if w.grow || w.roll(3) > 0 {
		r = api.ReservationID(fmt.Sprint("r", w.n))
	}
	c := command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte(pick(w, "d1", "d2")), Name: "b", Request: w.request(r), Min: w.roll(3)}}
	if w.roll(3) == 0 {
		c.Key = pick(w, "k1", "k2", "k3")
	}
	return c
}

// requeue boots preempted instances again, or finds no room for them. Its successor has as many
// groups as the boot.
func (w *world) requeue() command.Requeue {
	id := w.boot()
	if due := w.s.DueRequeued(w.now.Add(2*api.RequeuePauseMax), 8); len(due) > 0 && w.roll(8) > 0 {
		id = pick(w, due...).Reservation
	}
	c := command.Requeue{Stamp: w.stamp(), Project: "p", Reservation: id}
	r, ok := w.s.Requeued("p", id)
	if !ok {
		return c
	}
	c.Seen = r.ModIndex
	switch w.roll(8) {
	case 0, 1:
		return c
	case 2:
		c.Seen--
	case 3:
		c.Instances = w.ids(2)
		fallthrough
	default:
		b, _ := w.s.Boot("p", id)
		c.Refill = b.Refills + 1
		if w.roll(16) == 0 {
			c.Refill++
		}
	}
	for range r.Instances[min(len(c.Instances), len(r.Instances)):] {
		c.Instances = append(c.Instances, api.InstanceSpec{ID: api.InstanceID(fmt.Sprintf("i%d-%dq", w.n, len(c.Instances)))})
	}
	return c
}

func (w *world) hold() command.Hold {
	r := w.boot()
	c := command.Hold{Stamp: w.stamp(), ID: api.HoldID(fmt.Sprint(r, "/", w.roll(4))), Attempt: 1, Request: w.request(r), Expires: api.Forever}
	for _, i := range w.ids(4) {
		c.Slots = append(c.Slots, command.Slot{Instance: i, Host: w.hostID(), Group: w.roll(len(c.Request.Groups))})
	}
	if w.roll(3) == 0 {
		c.Parts = append(c.Parts, command.Part{Link: pick[api.LinkID](w, "c1", "c2"), Instances: [][]api.InstanceSpec{w.ids(3)}})
	}
	if w.grow { // ids of slots and parts differ
		for i := range c.Slots {
			c.Slots[i].Instance.ID += "s"
		}
	}
	if w.roll(3) == 0 {
		c.Origin, c.ID = "up", api.HoldID(fmt.Sprint("u", w.roll(30)))
		if w.grow {
			c.ID = api.HoldID(fmt.Sprint("u", w.n))
		}
	}
	for _, k := range bindingKeys[:max(0, w.roll(8)-5)] {
		c.Choices = append(c.Choices, w.choice(c.Origin, c.Request.Project, k))
	}
	if len(c.Choices) > 0 && len(c.Parts) == 0 && w.roll(8) > 0 {
		c.Parts = append(c.Parts, command.Part{Link: c.Choices[0].Link, Instances: [][]api.InstanceSpec{w.ids(3)}})
	}
	c.Commit = w.roll(3) == 0
	if w.roll(2) == 0 {
		c.Spares = [][]api.HostID{{w.hostID(), w.hostID()}}
	}
	if w.roll(3) == 0 {
		c.Plan = api.PlanID(fmt.Sprint("plan", w.roll(200)))
		if _, sealed := w.expiry[c.Plan]; !sealed { // a plan has one
			w.expiry[c.Plan] = w.now + api.Instant(w.roll(2000))
		}
		c.Expires = w.expiry[c.Plan]
	}
	return c
}

// bindingKeys are the keys for which projects are bound.
var bindingKeys = []api.BindingKey{{}, {AZ: "az1", Tags: []string{"resource=CAD"}}}

// choice chooses a child for a key, with what the zone knows more often than not.
func (w *world) choice(origin api.LinkID, p api.ProjectID, k api.BindingKey) api.BindingChoice {
	t := api.Tenant{Origin: origin, Project: p}
	c := api.BindingChoice{Key: k, Link: pick[api.LinkID](w, "c1", "c1", "c2"), Why: pick(w, api.BindingFirst, api.BindingNoRoom, ""), ID: api.BindingID(fmt.Sprint("b", w.roll(30)))}
	if w.roll(8) > 0 {
		c.ID = api.BindingID(fmt.Sprint("b", w.n, k.AZ))
	}
	if b, ok := w.s.ActiveBinding(t, k); ok && w.roll(4) > 0 {
		c.Seen = b.ID
	}
	if l, _ := w.s.ChosenLinks(origin, &api.Request{Project: p}, k); l != "" && w.roll(4) > 0 {
		c.Link = l
	}
	return c
}

// binding is what operators say of bindings.
func (w *world) binding() command.Command {
	all := w.s.Bindings()
	if len(all) > 0 && w.roll(3) == 0 {
		return command.BindingEnd{Stamp: w.stamp(), ID: pick(w, pick(w, all...).ID, "none")}
	}
	c := command.BindingSet{
		Stamp: w.stamp(), ID: api.BindingID(fmt.Sprint("o", w.n)), Project: "p", Origin: pick[api.LinkID](w, "", "", "up"), Key: pick(w, bindingKeys...),
		Link: pick[api.LinkID](w, "c1", "c2", "c2", "up"), User: "root",
	}
	if len(all) > 0 && w.roll(2) == 0 {
		c.Seen = pick(w, all...).ID
	}
	return c
}

// someHold returns a hold, undecided ones before others.
func (w *world) someHold() *state.Hold {
	all := w.s.PreparedHolds()
	if w.roll(2) == 0 {
		all = w.s.UntoldHolds()
	}
	if w.roll(4) == 0 {
		all = w.s.Holds()
	}
	if len(all) == 0 {
		return &state.Hold{ID: "none", Origin: "up", Decision: api.DecisionAbort}
	}
	return pick(w, all...)
}

func (w *world) parts() command.HoldParts {
	h := w.someHold()
	for _, o := range w.s.Holds() {
		if o.State == api.HoldAsking {
			h = o
		}
	}
	c := command.HoldParts{Stamp: w.stamp(), ID: h.ID, Origin: h.Origin}
	for _, p := range h.Parts {
		a := command.PartAnswer{Link: p.Link, Committed: w.roll(5) == 0}
		for _, i := range p.Instances {
			if w.roll(4) > 0 {
				a.Held = append(a.Held, i.Spec.ID)
			}
		}
		c.Answers = append(c.Answers, a)
	}
	return c
}

func (w *world) instance() api.InstanceID {
	all := w.s.InstancesPage(state.InstanceQuery{Page: state.Page{Limit: 40}})
	if len(all) == 0 || w.roll(8) == 0 {
		return "nobody"
	}
	return pick(w, all...).ID
}

func (w *world) status() api.Status {
	return pick(w, api.StatusActive, api.StatusActive, api.StatusDeleted, api.StatusDeleted, api.StatusError, api.StatusShutoff, api.StatusBuild, "DANCING")
}

func (w *world) reports() command.InstanceReport {
	c := command.InstanceReport{Stamp: w.stamp(), Agent: pick[api.AgentID](w, "a1", "a1", "a1", "a2")}
	h := w.hostID()
	for _, i := range w.s.OnHost(h) {
		r := api.InstanceReport{Host: h, Instance: i.ID, Status: w.status()}
		if i.Target != "" && w.roll(2) == 0 {
			r.Status = api.StatusDeleted
		}
		r.Stay = i.Stay() - min(i.Moves+i.Runs, uint64(w.n)%3/2) // of this one, or of the one before
		if w.n%4 == 0 {
			r.Stay = 0 // of any
		}
		c.Items = append(c.Items, r)
	}
	return c
}

// since draws since when an instance is out of reach: mostly it is not.
func (w *world) since() api.Instant {
	return pick(w, 0, 0, 0, w.now-api.Instant(w.roll(100)), w.now+api.Instant(w.roll(100)), -5)
}

func (w *world) changes() command.InstanceChanges {
	c := command.InstanceChanges{Stamp: w.stamp(), Link: pick[api.LinkID](w, "c1", "c2")}
	if l, ok := w.s.Link(c.Link); ok {
		c.After = l.ChangesNext
	}
	if w.roll(8) == 0 {
		c.After++
	}
	index := c.After
	for _, i := range w.s.InstancesPage(state.InstanceQuery{Page: state.Page{Limit: 40}}) {
		if i.Link == c.Link || w.roll(20) == 0 {
			index++
			c.Items = append(c.Items, api.InstanceChange{ID: i.ID, Status: w.status(), Index: index, Unreachable: w.since(), Restarts: pick[uint64](w, 0, 0, 0, 1, 2)})
		}
	}
	c.Next = index
	return c
}

// saved returns the bytes of a state.
func saved(s *state.State) []byte {
	var b writer
	if err := s.Save(&b); err != nil {
		panic(err)
	}
	return slices.Clone(b)
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
