package output

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/memstore"
	"berth/internal/script"
	"berth/raftstore/command"
	"berth/zone"
)

// world is two zones, root and below it kid, of one host each, in virtual time. At root, near is on the host
// and far in kid; at kid, far is on the host, and so is own, which is none of root's business.
type world struct {
	t         *testing.T
	root, kid *Reader
	below     func(q *api.OutputQuestion) (*api.OutputAnswer, error) // in place of kid; nil for kid itself
	asks      map[string]api.OutputAsk                               // that agents have taken, by the name that they get in a conversation
	reads     []*reading
}

// reading is a call that waits for its answer.
type reading struct {
	name string
	done chan string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, asks: map[string]api.OutputAsk{}}
	w.root, w.kid = w.zone("root", "kid", api.LinkChild), w.zone("kid", "root", api.LinkParent)
	w.place(w.root, "near", "", "h-root")
	w.place(w.root, "far", "", "")
	w.place(w.kid, "far", "link", "h-kid")
	w.place(w.kid, "own", "", "h-kid")
	return w
}

func (w *world) zone(name, other string, role api.LinkRole) *Reader {
	w.t.Helper()
	s, at := memstore.NewOfForm(api.FormNewest), command.Stamp{At: api.InstantOf(time.Now())}
	s.Must(w.t,
		command.Init{Stamp: at, Zone: api.ZoneID(name), Name: name},
		command.LinkPut{Stamp: at, Link: api.Link{ID: "link", Name: other, Role: role, Zone: api.ZoneID(other), Scale: 1, State: api.LinkActive}},
		command.HostsPut{Stamp: at, Agent: api.AgentID("agent-" + name), Hosts: []command.HostEntry{{ID: api.HostID("h-" + name), Host: api.AgentHost{
			Name: "h", Driver: "process", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 9}},
		}}}},
	)
	return New(zone.New(zone.Config{Store: s, Now: time.Now, Log: slog.New(slog.DiscardHandler)}), peers{w})
}

// place makes an instance on a host, or in the child zone if on is "".
func (w *world) place(r *Reader, id api.InstanceID, origin api.LinkID, on api.HostID) {
	w.t.Helper()
	s, at := r.zone.Store().(*memstore.Store), command.Stamp{At: api.InstantOf(time.Now())}
	spec := api.InstanceSpec{ID: id, Name: string(id)}
	req := api.Request{
		Reservation: api.ReservationID("r-" + id), Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "small", Resources: api.Resources{api.VCPU: 1}}},
	}
	h := command.Hold{Stamp: at, ID: api.HoldID("hold-" + id), Attempt: 1, Origin: origin, Request: req, Expires: api.Forever, Commit: true}
	if origin == "" {
		s.Must(w.t, command.BootCreate{Stamp: at, BootTerms: command.BootTerms{Digest: []byte(id), Name: spec.Name, Request: req, Min: 1, Instances: []api.InstanceSpec{spec}}})
	}
	if on != "" {
		h.Slots = []command.Slot{{Instance: spec, Host: on}}
		s.Must(w.t, h)
		return
	}
	h.Parts = []command.Part{{Link: "link", Instances: [][]api.InstanceSpec{{spec}}}}
	s.Must(w.t, h, command.HoldParts{Stamp: at, ID: h.ID, Answers: []command.PartAnswer{{Link: "link", Held: []api.InstanceID{id}, Committed: true}}})
}

// peers is the gateway of kid.
type peers struct{ w *world }

func (p peers) Output(ctx context.Context, _ *api.Link, q *api.OutputQuestion) (*api.OutputAnswer, error) {
	if p.w.below != nil {
		return p.w.below(q)
	}
	return p.w.kid.ReadAbroad(ctx, &api.Link{ID: "link"}, q)
}

// read begins to read an output.
func (w *world) read(name string, q api.OutputQuestion, read func(context.Context, *api.OutputQuestion) (*api.OutputAnswer, error)) {
	r := &reading{name, make(chan string, 1)}
	w.reads = append(w.reads, r)
	go func() { r.done <- shown(read(w.t.Context(), &q)) }()
}

func shown(a *api.OutputAnswer, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("%s: %s", api.CodeOf(err), api.MessageOf(err))
	case a.Lack != "":
		return "lack " + string(a.Lack)
	}
	return fmt.Sprintf("%d+%d of %d %q", a.Offset, len(a.Data), a.Total, a.Data)
}

// finished returns what became of the calls that have ended since.
func (w *world) finished() string {
	synctest.Wait()
	var b strings.Builder
	var rest []*reading
	for _, r := range w.reads {
		select {
		case what := <-r.done:
			fmt.Fprintf(&b, "%s: %s\n", r.name, what)
		default:
			rest = append(rest, r)
		}
	}
	w.reads = rest
	return b.String()
}

func (w *world) at(agent string) *Reader {
	if strings.HasSuffix(agent, "kid") {
		return w.kid
	}
	return w.root
}

// poll polls for work as an agent does, for a second.
func (w *world) poll(agent api.AgentID, form api.Form) string {
	r := w.at(string(agent))
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	waits, done := r.Await(ctx, agent, form)
	defer done()
	<-waits.Done()
	if ctx.Err() != nil {
		return "nothing\n"
	}
	var b strings.Builder
	for _, a := range r.Take(agent) {
		name := fmt.Sprint("ask-", len(w.asks)+1)
		w.asks[name] = a
		from := fmt.Sprint("from ", a.Question.After)
		if a.Question.Last {
			from = "the last"
		}
		fmt.Fprintf(&b, "%s: %s of %s on %s, %s, %d bytes\n", name, a.Question.Stream, a.Question.Instance, a.Host, from, a.Question.Limit)
	}
	return b.String()
}

func (w *world) do(c script.Command) (string, error) {
	switch c.Name {
	case "read": // NAME INSTANCE LIMIT [after=N] [from=kid, as its parent may]
		q := api.OutputQuestion{Instance: api.InstanceID(c.Arg(1)), Stream: api.Stdout, Limit: int(c.Int(w.t, 2)), Last: true}
		if after, ok := c.Value("after"); ok {
			q.Last = false
			_, err := fmt.Sscan(after, &q.After)
			require.NoError(w.t, err, c.Pos)
		}
		read := w.root.Read
		if _, abroad := c.Value("from"); abroad {
			read = func(ctx context.Context, q *api.OutputQuestion) (*api.OutputAnswer, error) {
				return peers{w}.Output(ctx, nil, q)
			}
		}
		w.read(c.Arg(0), q, read)
	case "poll": // AGENT FORM
		return w.poll(api.AgentID(c.Arg(0)), api.Form(c.Int(w.t, 1))) + w.finished(), nil //nolint:gosec // a small number
	case "answer": // AGENT ASK OFFSET TOTAL [DATA]
		_, err := w.at(c.Arg(0)).Answer(w.t.Context(), api.AgentID(c.Arg(0)), &api.AgentOutputs{Items: []api.AgentOutput{{
			ID: w.asks[c.Arg(1)].ID, Answer: api.OutputAnswer{Offset: uint64(c.Int(w.t, 2)), Total: uint64(c.Int(w.t, 3)), Data: []byte(c.Arg(4))}, //nolint:gosec // as the conversation says
		}}})
		require.NoError(w.t, err)
	case "lack": // AGENT ASK WORD
		_, err := w.at(c.Arg(0)).Answer(w.t.Context(), api.AgentID(c.Arg(0)), &api.AgentOutputs{Items: []api.AgentOutput{{
			ID: w.asks[c.Arg(1)].ID, Answer: api.OutputAnswer{Lack: api.OutputLack(c.Arg(2))},
		}}})
		require.NoError(w.t, err)
	case "wait": // DURATION
		d, err := time.ParseDuration(c.Arg(0))
		require.NoError(w.t, err, c.Pos)
		await.Sleep(d)
	case "deposed": // ZONE
		w.at(c.Arg(0)).forgetAll()
	case "below": // CODE, or what: kid says from now on
		w.below = nil
		switch what := c.Arg(0); what {
		case "kid":
		case "lies":
			w.below = func(q *api.OutputQuestion) (*api.OutputAnswer, error) {
				return &api.OutputAnswer{Total: 1 << 20, Data: make([]byte, q.Limit+1)}, nil
			}
		case "strange":
			w.below = func(*api.OutputQuestion) (*api.OutputAnswer, error) { return nil, errors.New("dialing 10.0.0.7") }
		default:
			w.below = func(*api.OutputQuestion) (*api.OutputAnswer, error) {
				return nil, api.Errorf(api.Code(what), "it says so")
			}
		}
	case "down": // ZONE: its host
		r := w.at(c.Arg(0))
		r.zone.Store().(*memstore.Store).Must(w.t, command.HostsState{Stamp: r.zone.Stamp(), State: api.HostDown, Hosts: []api.HostID{api.HostID("h-" + c.Arg(0))}})
	default:
		require.Fail(w.t, "no such command", c.Pos)
	}
	return w.finished(), nil
}

// TestConversation is about readers, agents and a child zone, honest and other ones.
func TestConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script.Run(t, "testdata/output.txt", newWorld(t).do)
	})
}

// question asks for the newest byte.
func question(id api.InstanceID) *api.OutputQuestion {
	return &api.OutputQuestion{Instance: id, Stream: api.Stdout, Limit: 1, Last: true}
}

// TestQuestionsAreBounded for an instance, an agent and a zone, and room is back when one ends.
func TestQuestionsAreBounded(t *testing.T) {
	r := New(newWorldZone(t), nil)
	var last *ask
	put := func(agent api.AgentID, n int) api.OutputLack {
		a, lack := r.putAsk(agent, "h", question(api.InstanceID(fmt.Sprint("i-", n))))
		if lack == "" {
			last = a
		}
		return lack
	}
	for range api.OutputAsksEach {
		require.Empty(t, put("a", 0))
	}
	assert.Equal(t, api.OutputBusy, put("a", 0), "one instance")
	for n := range api.OutputAsksMax - api.OutputAsksEach {
		require.Empty(t, put("a", n+1))
	}
	assert.Equal(t, api.OutputBusy, put("a", 99), "one agent")
	assert.Len(t, r.Take("a"), api.OutputAsksMax)
	assert.Equal(t, api.OutputBusy, put("a", 99), "what it was given is still open")
	r.endAsk(last)
	r.endAsk(last)
	require.Empty(t, put("a", 99))

	for n := api.OutputAsksMax; n < api.OutputAsksZoneMax; n++ {
		require.Empty(t, put(api.AgentID(fmt.Sprint("b-", n)), n))
	}
	assert.Equal(t, api.OutputBusy, put("c", 0), "one zone")
	r.endAsk(last)
	assert.Empty(t, put("c", 0))
}

func newWorldZone(t *testing.T) *zone.Zone {
	t.Helper()
	return zone.New(zone.Config{Store: memstore.New(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
}

// TestAnswersAreBounded in number.
func TestAnswersAreBounded(t *testing.T) {
	r := New(newWorldZone(t), nil)
	for n, code := range map[int]api.Code{api.OutputAsksMax: "", api.OutputAsksMax + 1: api.CodeInvalid} {
		ack, err := r.Answer(t.Context(), "a", &api.AgentOutputs{Items: make([]api.AgentOutput, n)})
		assert.Equal(t, code, api.CodeOf(err))
		if err == nil {
			assert.EqualValues(t, memstore.Term, ack.Term)
		}
	}
}
