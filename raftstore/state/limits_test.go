package state

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// TestLimitsAreThoseOfTheAPI: the newest limits are what callers are told.
func TestLimitsAreThoseOfTheAPI(t *testing.T) {
	assert.Equal(t, limits{
		bindings: api.BindingsActiveMax, bindingsProject: api.BindingsProjectMax, bindingsPast: api.BindingsPastMax,
		quotas: api.QuotasMax, quotaItems: quota.ItemsMax, quotaAhead: api.WindowMax, leaseLead: api.LeaseLeadMax, quotaDefaults: quota.Defaults(),
		shareHeld: api.ShareHeldDefault, shareCommitted: api.ShareCommittedDefault,
		agentHosts: api.HostsPerAgentMax, agentClasses: api.AgentClassesMax, agentTraits: api.AgentTraitsMax, roles: api.RolesMax, unlinked: true, endFirst: true, choicesHeld: true, tagTexts: true, detachedMove: true, rulesLifted: true, agents: api.AgentsMax, agentAge: 400 * 24 * time.Hour,
		authorities: api.AuthoritiesMax, authorityBytes: api.AuthorityMaxBytes, vouchBytes: api.VouchMaxBytes, pinPause: api.PinPause,
		leases: api.LeasesMax, series: api.SeriesMax, reserved: api.ReservedPerLinkMax, leaseEnds: api.LeaseEndsMax, leaseEndsTold: api.LeaseEndsToldMax, requeued: api.RequeuedMax, requeuePause: api.RequeuePauseMax, events: 20_000, audit: 10_000, auditParty: api.AuditPartyMax, eventAge: 24 * time.Hour,
		webhooks: api.WebhooksMax, webhooksProject: api.WebhooksProjectMax, webhookFailing: api.WebhookFailingMax,
		incarnation: api.IncarnationMax, lostHosts: api.LostHostsMax,
		attributeBytes: api.ExtraSpecMaxBytes, properties: api.HostPropertiesMax,
		aggregates: api.AggregatesMax, attached: api.AttachedMax, attributes: api.AttributesMax, classes: api.ClassesMax, consumers: api.ConsumersMax,
		consumersCall: api.ConsumersCallMax, customClasses: api.CustomClassesMax, customTraits: api.CustomTraitsMax,
		epochs: api.EpochsMax, faultBytes: api.FaultMaxBytes, filters: api.FiltersMax, flavors: api.FlavorsMax,
		holdsPerLink: api.HoldsPerLinkMax, links: api.LinksMax, providerAggs: api.ProviderAggsMax, providerName: api.ProviderNameMax,
		providers: api.ProvidersMax, serverGroups: api.ServerGroupsMax, shares: api.SharesMax, tokens: api.TokensMax, tokenUses: api.TokenUsesMax,
		tombstonesPerLink: api.TombstonesPerLinkMax, tree: api.TreeMax, treeDepth: api.TreeDepthMax,
	}, *limitsAt(api.FormNewest), "a changed limit is a new row of limitsOf, and a new form")
}

// TestNoLimitOfTheReleaseDecides: what decides in Apply stands in limitsOf.
func TestNoLimitOfTheReleaseDecides(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	limit := regexp.MustCompile(`api\.[A-Z]\w*Max\b`)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		assert.Empty(t, limit.FindAllString(string(text), -1), f)
	}
}

// TestAnEntryKeepsTheLimitsOfItsForm: entries of before a limit was raised are refused
// still, also beside those of after.
func TestAnEntryKeepsTheLimitsOfItsForm(t *testing.T) {
	old := slices.Clone(limitsOf)
	t.Cleanup(func() { limitsOf = old })
	raised := limitsOf[0]
	raised.since = api.FormFirst + 1
	raised.limits.aggregates++
	limitsOf = append(slices.Clone(limitsOf), raised)
	w := newWorld(t)
	put := func(n int, form api.Form) api.Code {
		b, err := command.Encode(command.AggregatePut{Stamp: w.stamp(), Aggregate: api.Aggregate{ID: api.AggregateID(fmt.Sprint("a", n)), Name: fmt.Sprint("a", n)}}, form)
		require.NoError(t, err)
		c, err := command.Decode(b, form)
		require.NoError(t, err)
		w.index++
		return api.CodeOf(w.s.Apply(w.index, c).Err)
	}
	for n := range api.AggregatesMax {
		require.Empty(t, put(n, api.FormFirst))
	}
	more := api.AggregatesMax
	assert.Equal(t, api.CodeOverloaded, put(more, api.FormFirst))
	assert.Empty(t, put(more, api.FormFirst+1))
	assert.Equal(t, api.CodeOverloaded, put(more+1, api.FormFirst+1))
	assert.Equal(t, api.CodeOverloaded, put(more+1, api.FormFirst))
	assert.Equal(t, api.FormFirst+1, w.s.Form())
	assert.Equal(t, limitsAt(1), limitsAt(0), "there is none before the first")
}

// TestANodeThatReadsLess cannot be recorded once the log has what it does not read.
func TestANodeThatReadsLess(t *testing.T) {
	w := newWorld(t)
	node := command.NodePut{Stamp: w.stamp(), Node: api.Node{ID: "old"}}
	w.ok(node)
	b, err := command.Encode(command.FlavorDelete{Stamp: w.stamp(), ID: "none"}, 2)
	require.NoError(t, err)
	c, err := command.Decode(b, 2)
	require.NoError(t, err)
	w.index++
	w.s.Apply(w.index, c)
	w.index++
	r := w.s.Apply(w.index, node)
	assert.Equal(t, api.CodeConflict, api.CodeOf(r.Err))
	require.ErrorContains(t, r.Err, `node "old" reads forms up to 1, and the log of the zone has form 2`)
	node.Node.Form = 2
	w.ok(node)
	twin := loaded(t, saved(t, w.s))
	assert.Equal(t, api.Form(2), twin.Form(), "a snapshot keeps it")
}
