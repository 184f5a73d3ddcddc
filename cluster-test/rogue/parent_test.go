package rogue

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/internal/codec"
)

// parent has the gateway certificate of crown, and answers in its place: it decides nothing.
func parent() party {
	return party{name: "parent", budget: size{state: 8 << 20, log: 32 << 20, index: 50_000}, attacks: func(t *testing.T, p *phase) []attack {
		t.Helper()
		p.silence.start(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/decision") {
				answer(w, http.StatusOK, api.DecisionAnswer{Decision: api.DecisionPending})
				return
			}
			answer(w, http.StatusServiceUnavailable, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeUnavailable}})
		})
		t.Cleanup(p.silence.stop)
		c := &parentCalls{phase: p, down: p.caller(over(p.crown.gatewayTLS(p.root, api.ALPNHTTP)), "https://"+p.root.node.Addresses().Gateway, cborHead())}
		return []attack{
			{"room for ever", c.hoard},
			{"plans that were not given", c.forge},
			{"windows in the future", c.startEarly},
			{"projects of the zone", c.borrowProject},
			{"names that draw", c.nameBadly},
			{"aborts of holds that never were", c.abortNothing},
			{"decisions on nothing", c.decideNothing},
			{"instances of others", c.endOthers},
			{"more than a call may have", c.askTooMuch},
			{"questions about hidden attributes", c.askHidden},
			{"changes from the beginning", c.follow},
			{"calls of children", c.callAsChild},
			{"gateways that move", c.moveGateways},
			{"bodies that are none", c.sendGarbage},
		}
	}}
}

// parentCalls are the calls of the rogue parent.
type parentCalls struct {
	*phase
	down *caller

	mu   sync.Mutex // guards held
	held int        // instances that it holds or has committed
}

// request is a request for n instances in a project.
func request(project api.ProjectID, n int) api.Request {
	return api.Request{
		Reservation: api.ReservationID(name("r-")), Project: project, User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: n, Flavor: "small", Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 64}}},
	}
}

// holdOf is a hold of all that was offered.
func holdOf(req api.Request, blob []byte, called string) api.HoldRequest {
	h := api.HoldRequest{ID: api.HoldID(strings.ReplaceAll(api.NewUUID(), "-", "")), Attempt: 1, Request: req, Blob: blob, Instances: [][]api.InstanceSpec{nil}}
	for range req.Groups[0].Count {
		h.Instances[0] = append(h.Instances[0], api.InstanceSpec{ID: api.InstanceID(api.NewUUID()), Name: called})
	}
	return h
}

// plan asks for a plan; it returns nil without one.
func (c *parentCalls) plan(ctx context.Context, r *record, req api.Request) *api.SelectAnswer {
	status, b := c.down.call(ctx, r, "POST", "/zones/select", req)
	var a api.SelectAnswer
	if status != http.StatusOK || codec.Unmarshal(b, &a) != nil {
		return nil
	}
	return &a
}

// hold takes what a request wants.
func (c *parentCalls) hold(ctx context.Context, r *record, req api.Request, path, called string) (api.HoldRequest, *api.HoldAnswer) {
	a := c.plan(ctx, r, req)
	if a == nil {
		return api.HoldRequest{}, nil
	}
	h := holdOf(req, a.Blob, called)
	status, b := c.down.call(ctx, r, "POST", path, h)
	var got api.HoldAnswer
	if status != http.StatusOK || codec.Unmarshal(b, &got) != nil {
		return h, nil
	}
	return h, &got
}

// hoardMax is how many instances hoard takes: less than the room that others need. What a parent may
// have of a zone is for its operator to say.
const hoardMax = 40

// hoard holds room and never decides.
func (c *parentCalls) hoard(ctx context.Context, r *record) error {
	c.mu.Lock()
	full := c.held >= hoardMax
	c.held += 4
	c.mu.Unlock()
	if full {
		r.note("has enough")
		return nil
	}
	c.hold(ctx, r, request("p", 4), "/zones/holds", "hoard")
	return nil
}

// forge holds by plans that were spoilt, used before, or made for another request or project.
func (c *parentCalls) forge(ctx context.Context, r *record) error {
	req := request("p", 1)
	a := c.plan(ctx, r, req)
	if a == nil || len(a.Blob) == 0 {
		return nil
	}
	spoilt := bytes.Clone(a.Blob)
	spoilt[len(spoilt)/2] ^= 1
	other := request("q", 1)
	more := req
	more.Groups = []api.Group{{Count: 9, Flavor: "small", Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 64}}}
	fatter := req
	fatter.Groups = []api.Group{{Count: 1, Flavor: "small", Resources: api.Resources{api.VCPU: 32, api.MemoryMB: 64}}}
	for what, h := range map[string]api.HoldRequest{
		"spoilt": holdOf(req, spoilt, "x"), "cut": holdOf(req, a.Blob[:len(a.Blob)/2], "x"), "none": holdOf(req, nil, "x"),
		"of another project": holdOf(other, a.Blob, "x"), "of fewer": holdOf(more, a.Blob, "x"), "of less": holdOf(fatter, a.Blob, "x"),
	} {
		if status, b := c.down.call(ctx, r, "POST", "/zones/holds", h); !refused(status) {
			return fmt.Errorf("a hold by a plan that is %s: %d %x", what, status, b)
		}
	}
	h := holdOf(req, a.Blob, "x")
	if status, _ := c.down.call(ctx, r, "POST", "/zones/holds", h); status != http.StatusOK {
		return nil
	}
	c.down.call(ctx, r, "DELETE", "/zones/holds/"+string(h.ID), nil)
	status, b := c.down.call(ctx, r, "POST", "/zones/holds", holdOf(req, a.Blob, "x"))
	return unless(refused(status), "a plan was used twice: %d %x", status, b)
}

// startEarly asks for windows in the future without a lease, or of a length that no zone has, and starts
// in them at once.
func (c *parentCalls) startEarly(ctx context.Context, r *record) error {
	at := func(d time.Duration) api.Instant { return api.InstantOf(time.Now().Add(d)) }
	year := 365 * 24 * time.Hour
	for _, w := range []api.Window{
		{Start: at(8 * year), End: at(8*year + time.Hour)}, {Start: at(time.Hour), End: api.Forever}, {Start: at(40 * year), End: api.Forever},
	} {
		req := request("p", 1)
		req.Window = w
		h, a := c.hold(ctx, r, req, "/servers", "early")
		if a != nil && len(a.Held) > 0 {
			c.down.call(ctx, r, "DELETE", "/zones/holds/"+string(h.ID), nil)
			return fmt.Errorf("instances of the window %v were started: %v", w, a)
		}
	}
	return nil
}

// borrowProject has an instance in a project with the name of one of the zone: neither may see it as
// the other's.
func (c *parentCalls) borrowProject(ctx context.Context, r *record) error {
	h, a := c.hold(ctx, r, request(honest, 1), "/servers", "borrowed")
	if a == nil || len(a.Held) == 0 {
		return nil
	}
	id := a.Held[0]
	defer c.down.call(ctx, r, "DELETE", "/servers/"+string(id), nil)
	page, err := c.standing.client.Servers(ctx, client.ServerQuery{Reservation: h.Request.Reservation}, client.ListOptions{})
	if err == nil && len(page.Items) > 0 {
		return fmt.Errorf("a project of the zone lists instance %s of its parent", id)
	}
	_, err = c.standing.client.Server(ctx, id)
	return unless(err != nil, "a project of the zone sees instance %s of its parent", id)
}

func (c *parentCalls) nameBadly(ctx context.Context, r *record) error {
	for _, bad := range []string{"a\x1b]0;pwn\x07", "a\x00b", "a\u202eb", "a\nb", strings.Repeat("n", 4096), "\xff"} {
		h, a := c.hold(ctx, r, request("p", 1), "/zones/holds", bad)
		if a != nil && len(a.Held) > 0 {
			c.down.call(ctx, r, "DELETE", "/zones/holds/"+string(h.ID), nil)
			return fmt.Errorf("an instance has the name %.40q", bad)
		}
	}
	return nil
}

// aborts of one try.
const aborts = 100

func (c *parentCalls) abortNothing(ctx context.Context, r *record) error {
	for range aborts / 2 {
		c.down.call(ctx, r, "DELETE", "/zones/holds/"+name("h"), nil)
	}
	var d api.Decisions
	for range aborts / 2 {
		d.Holds = append(d.Holds, api.HoldDecision{ID: api.HoldID(name("h")), Decision: api.DecisionAbort})
	}
	c.down.call(ctx, r, "POST", "/zones/decisions", d)
	return nil // what it costs is held against the budget
}

func (c *parentCalls) decideNothing(ctx context.Context, r *record) error {
	status, b := c.down.call(ctx, r, "POST", "/zones/holds/"+name("h")+"/commit", nil)
	return unless(refused(status), "a commit of nothing: %d %x", status, b)
}

// endOthers ends what others run, and takes their volumes.
func (c *parentCalls) endOthers(ctx context.Context, r *record) error {
	for _, i := range c.standing.instances {
		if status, b := c.down.call(ctx, r, "DELETE", "/servers/"+string(i), nil); !refused(status) {
			return fmt.Errorf("a parent ends instance %s of others: %d %x", i, status, b)
		}
		for _, path := range []string{"/volumes/attach", "/volumes/detach"} {
			if status, b := c.down.call(ctx, r, "POST", path, api.VolumeCall{Volume: i, Instance: i}); !refused(status) {
				return fmt.Errorf("%s of others: %d %x", path, status, b)
			}
		}
		for _, q := range []api.PowerCall{{Instance: i}, {Instance: i, Order: api.PowerStop, Run: 1}, {Instance: i, Order: api.PowerRestart, Run: 1}} {
			if status, b := c.down.call(ctx, r, "POST", "/servers/power", q); !refused(status) {
				return fmt.Errorf("a parent orders %+v of others: %d %x", q, status, b)
			}
		}
		stolen := holdOf(request("p", 1), nil, "x")
		stolen.Instances[0][0].ID = i
		if a := c.plan(ctx, r, stolen.Request); a != nil {
			stolen.Blob = a.Blob
			status, b := c.down.call(ctx, r, "POST", "/zones/holds", stolen)
			var got api.HoldAnswer
			if status == http.StatusOK && codec.Unmarshal(b, &got) == nil && len(got.Held) > 0 {
				return fmt.Errorf("a parent holds room under the id of instance %s of others", i)
			}
		}
	}
	return nil
}

// askTooMuch goes one above each limit of a call.
func (c *parentCalls) askTooMuch(ctx context.Context, r *record) error {
	many, groups, holds := request("p", api.CountMax+1), request("p", 1), api.Holds{}
	for range api.GroupsMax {
		groups.Groups = append(groups.Groups, groups.Groups[0])
	}
	for range api.HoldsMax + 1 {
		holds.Items = append(holds.Items, holdOf(request("p", 1), nil, "x"))
	}
	decisions := api.Decisions{Holds: make([]api.HoldDecision, api.DecisionsMax+1)}
	for i := range decisions.Holds {
		decisions.Holds[i] = api.HoldDecision{ID: api.HoldID(name("h")), Decision: api.DecisionAbort}
	}
	for path, bodies := range map[string][]any{
		"/zones/select": {many, groups, make([]byte, api.BodyMaxBytes+1)}, "/zones/holds": {make([]byte, api.ZoneBodyMaxBytes+1)},
		"/zones/holds/many": {holds}, "/zones/decisions": {decisions},
	} {
		for _, body := range bodies {
			if status, b := c.down.call(ctx, r, "POST", path, body); !refused(status) {
				return fmt.Errorf("%s above its limit: %d %x", path, status, b)
			}
		}
	}
	return nil
}

// askHidden asks for hosts by an attribute that is not public.
func (c *parentCalls) askHidden(ctx context.Context, r *record) error {
	var slots [2]int
	for i, guess := range []string{secret, secret + "x"} {
		req := request("p", 4)
		req.Groups[0].Hints.Query = fmt.Sprintf(`["=","$serial",%q]`, guess)
		a := c.plan(ctx, r, req)
		if a == nil {
			continue
		}
		for _, w := range a.Weights {
			slots[i] += len(w)
		}
	}
	return unless(slots[0] == slots[1], "a right guess offers %d slots, a wrong one %d", slots[0], slots[1])
}

func (c *parentCalls) follow(ctx context.Context, r *record) error {
	for _, after := range []string{"0", "18446744073709551615", "1"} {
		status, b := c.down.call(ctx, r, "GET", "/zones/changes?after="+after+"&wait=0s", nil)
		var ch api.Changes
		if status != http.StatusOK || codec.Unmarshal(b, &ch) != nil {
			continue
		}
		for _, i := range c.standing.instances {
			for _, item := range ch.Items {
				if item.ID == i {
					return fmt.Errorf("the changes have instance %s of others", i)
				}
			}
		}
	}
	return nil
}

func (c *parentCalls) callAsChild(ctx context.Context, r *record) error {
	status, b := c.down.call(ctx, r, "POST", "/zones/above", api.AboveQuestion{Zone: "z"})
	return unless(refused(status), "a call of children: %d %x", status, b)
}

// moveGateways says in each call that its gateways are elsewhere, and then where they are.
func (c *parentCalls) moveGateways(ctx context.Context, r *record) error {
	for n := range 20 {
		c.down.call(ctx, r, "POST", "/zones/hello", api.Hello{Endpoints: []string{fmt.Sprintf("127.0.0.1:%d", 1+n)}})
	}
	c.down.call(ctx, r, "POST", "/zones/hello", api.Hello{Endpoints: []string{c.crown.node.Addresses().Gateway}})
	return nil // what it costs is held against the budget
}

func (c *parentCalls) sendGarbage(ctx context.Context, r *record) error {
	for _, body := range [][]byte{nil, {0xff}, {0xa1, 0x18, 0x63, 5}, bytes.Repeat([]byte{0x81}, 1<<16), bytes.Repeat([]byte{0xa1, 1}, 1<<15), {0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte(`{"a":1}`)} {
		for _, path := range []string{"/zones/select", "/zones/room", "/zones/holds", "/zones/holds/many", "/servers", "/zones/decisions", "/volumes/attach", "/servers/power"} {
			if status, b := c.down.call(ctx, r, "POST", path, body); !refused(status) {
				return fmt.Errorf("POST %s of %.20x: %d %x", path, body, status, b)
			}
		}
	}
	return nil
}
