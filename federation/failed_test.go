package federation

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/identity"
	"berth/internal/memstore"
	"berth/raftstore"
	"berth/raftstore/command"
	"berth/zone"
)

// What a call needs.
const (
	writes = 1 << iota // an entry
	asks               // a majority
	opens              // a secret
	keeps              // its disk
)

// failing is a zone in which something fails, with a child, and another zone.
type failing struct {
	*place
	t            *testing.T
	child, other *place
	csr          []byte
}

// calls are what a zone is asked for, each with what must be there before it.
var calls = map[string]struct {
	needs int
	begin func(f *failing) func(context.Context) error
}{
	"Join": {writes | opens, func(f *failing) func(context.Context) error {
		b := &rest.JoinBody{Token: f.joinToken(api.JoinAgent, "rack-1"), CSR: f.csr}
		return func(ctx context.Context) error { _, err := f.Join(ctx, b); return err }
	}},
	"Enrol": {writes | opens, func(f *failing) func(context.Context) error {
		token, err := f.LinkToken(f.t.Context(), "other", 2, 3)
		require.NoError(f.t, err)
		e := f.other.enrolment(token)
		e.Incarnation = 5
		return func(ctx context.Context) error { _, err := f.Enrol(ctx, f.other.id, f.other.pin(), e); return err }
	}},
	"Link": {writes | opens, func(f *failing) func(context.Context) error {
		token := f.other.linkToken("kid")
		f.other.answers = func(back *api.Enrolment) (*api.Enrolment, error) {
			back.Incarnation = 7
			return back, nil
		}
		return func(ctx context.Context) error { _, err := f.Link(ctx, token, "up"); return err }
	}},
	"Hello of gateways": {writes, func(f *failing) func(context.Context) error {
		f.setForward(gatewaysPause)
		return f.hello(&api.Hello{Endpoints: []string{"gw:7601"}})
	}},
	"Hello of authorities": {writes, func(f *failing) func(context.Context) error {
		require.NoError(f.t, f.child.RotateCA(f.t.Context(), rest.CABrought{}))
		return f.hello(&api.Hello{Authorities: f.child.view().Authorities()})
	}},
	"Hello of a key": {opens, func(f *failing) func(context.Context) error { return f.hello(&api.Hello{KeyCheck: []byte("x")}) }},
	"JoinToken": {writes, func(f *failing) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := f.JoinToken(ctx, api.JoinNode, "n", time.Minute)
			return err
		}
	}},
	"AgentToken": {writes, func(f *failing) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := f.AgentToken(ctx, "n", api.AgentTerms{}, time.Minute)
			return err
		}
	}},
	"LinkToken": {writes, func(f *failing) func(context.Context) error {
		return func(ctx context.Context) error { _, err := f.LinkToken(ctx, "n", 2, 3); return err }
	}},
	"NewToken": {writes, func(f *failing) func(context.Context) error {
		return func(ctx context.Context) error {
			_, _, err := f.NewToken(ctx, api.Token{User: "u", Project: "p", Expires: api.Forever})
			return err
		}
	}},
	"NewWebhook": {writes | opens, func(f *failing) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := f.NewWebhook(ctx, api.Webhook{Project: "p", Name: "hook", URL: "https://hook"}, "hush")
			return err
		}
	}},
	"WrapLeaseToken": {opens, func(f *failing) func(context.Context) error {
		return func(context.Context) error { _, err := f.WrapLeaseToken("https://check", "bearer"); return err }
	}},
	"RemoveMember": {writes, func(f *failing) func(context.Context) error {
		f.joins("node-2")
		return func(ctx context.Context) error { return f.RemoveMember(ctx, "node-2") }
	}},
	"RemoveMember of one without a record": {writes, func(f *failing) func(context.Context) error {
		f.members.edit("", func(list []raftstore.Member) []raftstore.Member { return append(list, raftstore.Member{ID: "node-2"}) })
		return func(ctx context.Context) error { return f.RemoveMember(ctx, "node-2") }
	}},
	"AgentToken with terms": {writes, func(f *failing) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := f.AgentToken(ctx, "n", api.AgentTerms{HostPrefix: "rack-"}, time.Minute)
			return err
		}
	}},
	"ForgetRemoved": {writes, func(f *failing) func(context.Context) error {
		f.propose(command.NodePut{Stamp: f.zone.Stamp(), Node: api.Node{ID: "node-7", Form: api.FormNewest}})
		return f.ForgetRemoved
	}},
	"RecordNode": {writes, func(f *failing) func(context.Context) error {
		return func(ctx context.Context) error {
			return f.RecordNode(ctx, api.Node{ID: "node-1", Form: api.FormNewest, Version: "next"})
		}
	}},
	"AdmitNode": {writes, func(f *failing) func(context.Context) error {
		f.joins("node-2")
		return func(ctx context.Context) error {
			return f.AdmitNode(ctx, api.Node{ID: "node-2", Form: api.FormNewest, NodeAddr: "elsewhere:1"})
		}
	}},
	"RotateCA": {writes | asks | opens, func(f *failing) func(context.Context) error {
		return func(ctx context.Context) error { return f.RotateCA(ctx, rest.CABrought{}) }
	}},
	"UseCA": {writes | asks, func(f *failing) func(context.Context) error {
		f.changesCA()
		return func(ctx context.Context) error { return f.UseCA(ctx, true) }
	}},
	"FinishCA": {writes | asks, func(f *failing) func(context.Context) error {
		f.changesCA()
		require.NoError(f.t, f.UseCA(f.t.Context(), true))
		return func(ctx context.Context) error { return f.FinishCA(ctx, true) }
	}},
	"CAStatus": {asks, func(f *failing) func(context.Context) error {
		return func(ctx context.Context) error { _, err := f.CAStatus(ctx); return err }
	}},
	"announceTo": {writes, func(f *failing) func(context.Context) error {
		f.changesCA()
		return func(ctx context.Context) error { return f.announceTo(ctx, f.view(), f.linkTo(f.child)) }
	}},
	"AgentTrust": {writes, func(f *failing) func(context.Context) error {
		_, err := f.admits(f.joinToken(api.JoinAgent, "rack-1"), f.csr)
		require.NoError(f.t, err)
		f.changesCA()
		q, shown := &api.AgentTrust{Trusts: f.view().NewestAuthority()}, f.shown(f.time())
		return func(ctx context.Context) error { _, err := f.AgentTrust(ctx, "rack-1", shown, q); return err }
	}},
	"RenewNode": {asks | opens, func(f *failing) func(context.Context) error {
		shown := f.shown(f.time())
		f.setForward(identity.RenewableAge(identity.LeafTTL))
		return func(ctx context.Context) error {
			_, err := f.RenewNode(ctx, "node-1", shown, f.csr, []string{"n"})
			return err
		}
	}},
	"RenewAgent": {writes | opens, func(f *failing) func(context.Context) error {
		_, err := f.admits(f.joinToken(api.JoinAgent, "rack-1"), f.csr)
		require.NoError(f.t, err)
		shown := f.shown(f.issued(f.t, "rack-1"))
		f.setForward(identity.RenewableAge(identity.LeafTTL) + time.Hour)
		return func(ctx context.Context) error { _, err := f.RenewAgent(ctx, "rack-1", shown, f.csr); return err }
	}},
	"RotateKEK":     {writes | asks | opens | keeps, func(f *failing) func(context.Context) error { return f.RotateKEK }},
	"RotateKeyring": {writes | opens, func(f *failing) func(context.Context) error { return f.RotateKeyring }},
	"AnswerKEKs": {keeps, func(f *failing) func(context.Context) error {
		return func(context.Context) error { _, err := f.AnswerKEKs(NewKEK()); return err }
	}},
	"UpgradeStatus": {asks, func(f *failing) func(context.Context) error {
		return func(ctx context.Context) error { _, err := f.UpgradeStatus(ctx); return err }
	}},
	"FinishUpgrade": {writes | asks, func(f *failing) func(context.Context) error {
		const newer = api.FormNewest + 1 // of a release to come
		require.NoError(f.t, f.RecordNode(f.t.Context(), api.Node{ID: "node-1", Form: newer}))
		f.members.allRead.Store(int64(newer))
		return f.FinishUpgrade
	}},
	"Relink": {writes | asks, func(f *failing) func(context.Context) error {
		f.returned = func(*api.Link) (api.Incarnation, error) { return 1_700_000_000, nil }
		return func(ctx context.Context) error {
			_, err := f.Relink(ctx, f.linkTo(f.child).ID, rest.Relink{Incarnation: 1_700_000_000})
			return err
		}
	}},
	"OpenAuthority": {opens, func(f *failing) func(context.Context) error {
		return func(context.Context) error { _, err := OpenAuthority(f.keys.KEKs(), f.view()); return err }
	}},
}

func (f *failing) hello(h *api.Hello) func(context.Context) error {
	return func(ctx context.Context) error { return f.Hello(ctx, f.linkTo(f.child), f.child.pin(), h) }
}

func (f *failing) changesCA() {
	f.t.Helper()
	require.NoError(f.t, f.RotateCA(f.t.Context(), rest.CABrought{}))
}

// TestWhatIsNotDoneIsNoSuccess: each call says so when its entry is not written, when no majority confirms what it is about,
// when this node lacks the key of the secrets that it needs, and when its disk keeps nothing.
func TestWhatIsNotDoneIsNoSuccess(t *testing.T) {
	t.Parallel()
	lost := api.Errorf(api.CodeTimeout, "nobody knows")
	faults := map[string]struct {
		of   int
		make func(f *failing)
	}{
		"nothing": {0, func(*failing) {}},
		"entries": {writes, func(f *failing) { f.store.Fail(lost) }},
		"the lead": {asks, func(f *failing) {
			f.zone = zone.New(zone.Config{Store: memstore.NewPast(f.store, f.view(), true), Now: f.time, Log: f.log})
		}},
		"the key": {opens, func(f *failing) { f.keys = NewKeys(f.keks[:1], f.keepKEKs, nil) }},
		"its disk": {keeps, func(f *failing) {
			f.keys = NewKeys(f.keks, func(KEKs) error { return errors.New("the disk is full") }, nil)
		}},
	}
	for name, c := range calls {
		for what, fault := range faults {
			if fault.of&c.needs != fault.of {
				continue
			}
			w := newWorld(t)
			f := &failing{
				place: w.addOfForm("p", nil, api.FormNewest), t: t, csr: certificateRequest(t),
				child: w.addOfForm("c", nil, api.FormNewest), other: w.addOfForm("o", nil, api.FormNewest),
			}
			f.child.isBelow(f.place)
			require.NoError(t, f.RotateKEK(t.Context()))
			call := c.begin(f)
			fault.make(f)
			err := call(t.Context())
			if fault.of == 0 {
				require.NoError(t, err, name)
				continue
			}
			require.Error(t, err, "%s without %s", name, what)
			if fault.of == writes {
				assert.Equal(t, api.CodeTimeout, api.CodeOf(err), "%s: whether it was done is unknown", name)
			}
		}
	}
}

// TestAuthorityOfOtherKeys: an authority is opened with the zone's keys alone, also by those that never changed.
func TestAuthorityOfOtherKeys(t *testing.T) {
	t.Parallel()
	p := newWorld(t).add("a", nil)
	got, err := OpenAuthority(p.keks, p.view())
	require.NoError(t, err)
	assert.Equal(t, p.ca.CertDER(), got.CertDER())
	for what, keks := range map[string]KEKs{"no key": nil, "another key": {{99}}} {
		_, err = OpenAuthority(keks, p.view())
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "%s: %v", what, err)
	}
}
