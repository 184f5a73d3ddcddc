package zone

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
)

// TestWhatIsAudited: what concerns the zone itself is recorded whoever changes it, and other commands
// only of actors for whom they are not daily work.
func TestWhatIsAudited(t *testing.T) {
	t.Parallel()
	admin := api.AuditActor{Kind: api.ActorToken, ID: "t", Project: "ops"}
	agent, link, zone := api.AuditActor{Kind: api.ActorAgent, ID: "a"}, api.AuditActor{Kind: api.ActorLink, ID: "z"}, api.AuditActor{Kind: api.ActorZone}
	for _, c := range []struct {
		c                         command.Command
		admin, agent, link, alone bool
	}{
		{c: command.NodePut{}, admin: true, agent: true, link: true, alone: true},
		{c: command.KEKUse{}, admin: true, agent: true, link: true, alone: true},
		{c: command.LinkWriteOff{}, admin: true, agent: true, link: true, alone: true},
		{c: command.HostWriteOff{}, admin: true, agent: true, link: true, alone: true},
		{c: command.LinkRelink{}, admin: true, agent: true, link: true, alone: true},
		{c: command.LinkReconciled{}},
		{c: command.LinkRestored{}},
		{c: command.CAAdd{}, admin: true, agent: true, link: true, alone: true},
		{c: command.CAUse{}, admin: true, agent: true, link: true, alone: true},
		{c: command.CADrop{}, admin: true, agent: true, link: true, alone: true},
		{c: command.LinkPin{}, admin: true, agent: true, link: true, alone: true},
		{c: command.AgentTrust{}},
		{c: command.AgentRenew{}, admin: true, agent: true, link: true, alone: true},
		{c: command.HostsPut{}, agent: true},
		{c: command.InstanceReport{}},
		{c: command.LinkSet{}, admin: true, link: true},
		{c: command.HoldDecide{}, admin: true},
		{c: command.ProviderSet{}, admin: true},
		{c: command.ConsumersPut{}},
		{c: command.ConsumersPut{Reshape: []command.Reshape{{}}}, admin: true},
		{c: command.LeaseSet{Terms: api.LeaseTerms{Project: "ops"}}},
		{c: command.LeaseSet{Terms: api.LeaseTerms{Project: "web"}}, admin: true},
		{c: command.LeaseDelete{Project: "ops"}},
		{c: command.LeaseDelete{Project: "web"}, admin: true},
		{c: command.SeriesDelete{Project: "web"}, admin: true},
	} {
		got := []bool{isAudited(admin, c.c), isAudited(agent, c.c), isAudited(link, c.c), isAudited(zone, c.c)}
		assert.Equal(t, []bool{c.admin, c.agent, c.link, c.alone}, got, "%T", c.c)
	}
}
