package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/dice"
	"berth/quota"
	"berth/raftstore/command"
)

// parties draws what becomes of those that are let in: roles, uses of tokens, nodes, agents, and the
// key that wraps the zone's secrets.
func (w *world) parties() []command.Command {
	at := w.stamp()
	name := pick[api.UserRole](w, "deployer", "auditor", "admin")
	switch w.roll(14) {
	case 10:
		put := command.FlavorPut{Stamp: at, Flavor: api.Flavor{ID: "f1", Name: "f1", Resources: api.Resources{api.VCPU: 1}}, Replace: w.roll(3) == 0}
		return []command.Command{put, command.FlavorDelete{Stamp: w.stamp(), ID: pick[api.FlavorID](w, "f1", "f2")}}
	case 11:
		if w.roll(2) == 0 {
			return []command.Command{command.QuotaDelete{Stamp: at, Project: "p"}}
		}
		return []command.Command{command.QuotaSet{Stamp: at, Project: "p", Set: quota.Limits{quota.Instances: int64(40 + w.roll(1000))}}}
	case 12:
		by := pick(w, api.AuditActor{Kind: api.ActorToken, ID: "t"}, api.AuditActor{Kind: api.ActorLink, ID: "c1"}, api.AuditActor{Kind: api.ActorAgent, ID: "a1"})
		return []command.Command{command.Audit{Stamp: at, Actor: by, Request: "r1", Call: "PUT /x", Count: 1}, w.operator()}
	case 0:
		return []command.Command{command.RoleSet{Stamp: at, Role: api.Role{Name: name, Allow: []api.RouteGroup{pick[api.RouteGroup](w, "boots:write", "leases:write")}}}}
	case 1:
		return []command.Command{command.RoleDelete{Stamp: at, Name: name}}
	case 2:
		id := pick[api.TokenID](w, "t1", "t2")
		return []command.Command{command.TokenPut{Stamp: at, Token: api.Token{ID: id, Hash: []byte(id), Project: "p", Roles: []api.UserRole{name}, Expires: w.now + api.Instant(w.roll(500))}}}
	case 3:
		return []command.Command{command.TokenDelete{Stamp: at, ID: pick[api.TokenID](w, "t1", "t2")}}
	case 4:
		return []command.Command{command.TokensUsed{Stamp: at, Used: []api.TokenUse{
			{ID: pick[api.TokenID](w, "t", "t1", "t2"), At: w.now - api.Instant(w.roll(100)-10)}, {ID: "none", At: w.now},
		}}}
	case 5:
		return []command.Command{w.rewrap(at)}
	case 6:
		id := pick[api.NodeID](w, "n1", "n2", "n3")
		if w.roll(3) == 0 {
			return []command.Command{command.NodeRemove{Stamp: at, ID: id}}
		}
		return []command.Command{command.NodePut{Stamp: at, Node: api.Node{ID: id, NodeAddr: "n:1", Form: api.FormNewest}}}
	case 7:
		return []command.Command{command.EpochAdd{Stamp: at, Epoch: command.Epoch{ID: fmt.Appendf(nil, "e%03d", w.n), Wrapped: fmt.Appendf(nil, "w%d", w.n)}, Keep: 3}}
	case 8:
		return []command.Command{w.authority(at)}
	case 9:
		return []command.Command{w.pin(at), command.AgentTrust{
			Stamp: w.stamp(), ID: pick[api.AgentID](w, "a1", "a2"), Issued: w.now - api.Instant(w.roll(50)), Trusts: w.s.NewestAuthority(), Issuer: pick(w, w.s.NewestAuthority(), "old"),
		}}
	}
	return w.agent(at)
}

// authority begins the change of the zone's authority, or goes on with it, mostly although somebody would be refused.
func (w *world) authority(at command.Stamp) command.Command {
	switch w.s.CAPhase() {
	case api.CATrusted:
		return command.CAUse{Stamp: at, New: pick(w, w.s.NewestAuthority(), w.s.NewestAuthority(), "none"), Force: w.roll(4) > 0}
	case api.CAUsed:
		return command.CADrop{Stamp: at, Old: api.FingerprintOf(w.s.Change.Cert), Force: w.roll(4) > 0}
	default:
		cert := pick(w, w.s.CA, fmt.Appendf(nil, "ca%d", w.n), fmt.Appendf(nil, "ca%d", w.n))
		return command.CAAdd{Stamp: at, Old: api.FingerprintOf(w.s.CA), Cert: cert, Key: append([]byte("key of "), cert...), Vouch: []byte{1}, KEK: w.s.KEK}
	}
}

// pin says which authorities a linked zone has, or which it has pinned.
func (w *world) pin(at command.Stamp) command.Command {
	c := command.LinkPin{Stamp: at, ID: pick[api.LinkID](w, "up", "c1", "c2")}
	if w.roll(2) == 0 {
		c.Told = []api.Fingerprint{w.s.NewestAuthority()}
		return c
	}
	l, ok := w.s.Link(c.ID)
	if !ok {
		return c
	}
	c.Pins = pick(w, [][]byte{l.CA, fmt.Appendf(nil, "pin%d", w.n)}, [][]byte{l.CA}, l.Pins())
	if l.NextCA != nil && w.roll(2) == 0 {
		c.Pins = [][]byte{l.NextCA}
	}
	return c
}

// rewrap wraps all secrets of the zone by another key, or all but one.
func (w *world) rewrap(at command.Stamp) command.KEKUse {
	secrets := [][]byte{w.s.CAKey}
	if w.s.CAPhase() == api.CATrusted {
		secrets = append(secrets, w.s.Change.Key)
	}
	for _, e := range w.s.Epochs {
		secrets = append(secrets, e.Wrapped)
	}
	for _, hook := range w.s.Webhooks() {
		secrets = append(secrets, hook.Secret)
	}
	c := command.KEKUse{Stamp: at, ID: fmt.Appendf(nil, "k%d", w.n), Due: w.s.KEKDue}
	for _, old := range secrets[w.roll(4)/3:] {
		c.Secrets = append(c.Secrets, command.Rewrap{Old: old, New: append([]byte{'+'}, old...)})
	}
	return c
}

// agent renews the certificate of an agent, or ends one. The one that has hosts comes back at once,
// most times, with a new token.
func (w *world) agent(at command.Stamp) []command.Command {
	id := pick[api.AgentID](w, "a1", "a2", "a3", "a2", "a3")
	if w.roll(3) > 0 {
		return []command.Command{command.AgentRenew{Stamp: at, ID: id, Issued: w.now - api.Instant(w.roll(50))}}
	}
	out := []command.Command{command.AgentRevoke{Stamp: at, ID: id}}
	if w.roll(8) == 0 {
		return out
	}
	token := api.JoinToken{ID: api.TokenID(fmt.Sprint("join", w.n)), Hash: []byte{1}, Kind: api.JoinAgent, Name: string(id), Expires: api.Forever}
	out = append(out, command.JoinPut{Stamp: w.stamp(), Token: token}, command.JoinUse{Stamp: w.stamp(), ID: token.ID, Hash: token.Hash, Want: api.JoinAgent})
	if id == "a1" {
		for n := range 6 {
			host := api.HostID(fmt.Sprint("h", n))
			on := true
			out = append(out, w.hostPut(string(host), 8), command.HostSet{Stamp: w.stamp(), ID: host, Enabled: &on})
		}
	}
	return out
}

// notDrawn has the kinds that step does not draw, each with where they are drawn instead.
var notDrawn = map[command.Kind]string{
	command.KindLinkDelete:     "cluster-test/sim: TestSeeds; the links here are those that all else is drawn for",
	command.KindLinkWriteOff:   "raftstore/state: TestWriteOffTried",
	command.KindLinkRelink:     "raftstore/state: TestRelink",
	command.KindLinkReconciled: "as LinkRelink",
	command.KindLinkRestored:   "zone/saga: TestAParentHearsOfARestore",
	command.KindFormRaise:      "raftstore/state: TestFormRaise; cluster-test/sim: TestUpgradeNodeByNode",
	command.KindRestored:       "TestRestoredLogs: the model begins anew",
	command.KindRestore:        "TestRestoredLogs",
	command.KindLeaseCreate:    "raftstore/state: TestLeaseOracle; cluster-test/sim: TestSeeds",
	command.KindLeaseSet:       "as LeaseCreate",
	command.KindLeaseDelete:    "as LeaseCreate",
	command.KindTick:           "as LeaseCreate",
	command.KindSeriesCreate:   "as LeaseCreate",
	command.KindSeriesDelete:   "as LeaseCreate",
	command.KindLeaseEndsTold:  "as LeaseCreate",
}

// TestEveryKindIsDrawn: and succeeds, but for those that are drawn elsewhere.
func TestEveryKindIsDrawn(t *testing.T) {
	drawn := map[command.Kind]int{}
	isThin := func() bool {
		for kind := command.Kind(1); isKnown(kind); kind++ {
			if _, elsewhere := notDrawn[kind]; !elsewhere && drawn[kind] == 0 {
				return true
			}
		}
		return false
	}
	for i, seed := range dice.Seeds(t, 400) {
		if i >= few(50) && !isThin() {
			break
		}
		w := newWorld(seed)
		w.grow = i%2 == 0
		for range 600 {
			w.step()
		}
		for kind, n := range w.drawn {
			drawn[kind] += n
		}
	}
	kinds := 0
	for kind := command.Kind(1); isKnown(kind); kind++ {
		kinds++
		_, elsewhere := notDrawn[kind]
		assert.Equal(t, elsewhere, drawn[kind] == 0, "kind %d was drawn %d times", kind, drawn[kind])
	}
	assert.Greater(t, kinds, len(notDrawn))
}

func isKnown(kind command.Kind) bool {
	_, err := command.Decode([]byte{byte(kind), byte(api.FormNewest)}, api.FormNewest)
	return err == nil || !strings.Contains(err.Error(), "is unknown")
}
