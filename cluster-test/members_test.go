package clustertest

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/internal/await"
)

// voters returns the ids of the nodes that vote, as one node sees it.
func voters(ctx context.Context, n *lab.NodeProc) ([]string, error) {
	members, err := n.Client(n.Zone.Token).Members(ctx)
	var out []string
	for _, m := range members {
		if m.Voter {
			out = append(out, string(m.ID))
		}
	}
	slices.Sort(out)
	return out, err
}

// seeVoters waits until every running node in want agrees that these vote.
func seeVoters(t *testing.T, z *lab.Zone, want ...string) {
	t.Helper()
	for _, id := range want {
		n := z.Node(api.NodeID(id))
		await.Until(t, id+" sees who votes", func(ctx context.Context) error {
			got, err := voters(ctx, n)
			if err == nil && slices.Equal(got, want) {
				return nil
			}
			return lab.OrElse(err, "voters are %v, want %v", got, want)
		})
	}
}

// followers returns the running nodes that do not lead.
func followers(t *testing.T, z *lab.Zone) []*lab.NodeProc {
	t.Helper()
	leader := z.Leader()
	return slices.DeleteFunc(z.Running(), func(n *lab.NodeProc) bool { return n == leader })
}

func TestMembers(t *testing.T) {
	t.Parallel()
	w := lab.New(t, lab.Options{})
	z := w.Zone("solo", 1)
	t.Log("a node that has just started takes calls, and answers when it leads")
	z.Nodes[0].Kill()
	z.Nodes[0].BePatient()
	z.Nodes[0].Start()
	z.MemberToken("early", api.RoleReader)
	z.Flavor("unit", unitMB)
	z.Join("node-2")
	z.Join("node-3")
	seeVoters(t, z, "node-1", "node-2", "node-3")
	z.FakeAgent("fake", 1, 8*unitMB)
	table := z.CLI("operator", "members")
	for _, n := range z.Nodes {
		assert.Contains(t, table, n.At.API)
	}

	t.Log("a follower takes writes and reads them back")
	for i, n := range followers(t, z) {
		c := n.Client(z.Token)
		f, err := c.CreateFlavor(t.Context(), rest.FlavorSpec{Name: []string{"one", "two"}[i], RAM: new(int64(1))})
		require.NoError(t, err)
		_, err = c.Flavor(t.Context(), f.ID)
		require.NoError(t, err, "what was written through a node is seen there")
		tok, err := c.CreateToken(t.Context(), rest.TokenSpec{User: "ada", Project: "web", Roles: []api.UserRole{api.RoleReader}})
		require.NoError(t, err)
		for _, other := range z.Nodes { // also where the news may not have come yet
			_, err = other.Client(tok.Token).Flavors(t.Context(), client.ListOptions{})
			require.NoError(t, err, "a token is good at every node at once")
		}
	}

	t.Log("the leadership goes where it is told")
	next := followers(t, z)[0]
	z.CLI("operator", "transfer", string(next.ID))
	await.Until(t, "the leadership moves", func(context.Context) error {
		if now := z.Leader(); now != next {
			return lab.OrElse(nil, "%s leads", now.ID)
		}
		return nil
	})

	t.Log("a snapshot brings back what there was, and nothing since")
	file := filepath.Join(w.Dir, "zone.snapshot")
	count := 2
	boot := func(id string) {
		_, err := z.Admin().Boot(t.Context(), rest.ServerCreate{Name: "x", FlavorRef: "unit", MaxCount: &count, Reservation: id}, "")
		require.NoError(t, err)
		require.Equal(t, api.BootActive, z.Outcome(z.Token, api.ReservationID(id)).State)
	}
	boot("r-before")
	z.CLI("operator", "snapshot", "save", file)
	boot("r-after")
	z.Flavor("late", 1)
	z.CLI("operator", "snapshot", "restore", file, "--yes")
	for _, n := range z.Nodes {
		await.Until(t, string(n.ID)+" has the state of the snapshot", func(ctx context.Context) error {
			c := n.Client(z.Token)
			_, late := c.Flavor(ctx, "late")
			_, after := c.Reservation(ctx, "r-after", 0)
			b, before := c.Reservation(ctx, "r-before", 0)
			if api.CodeOf(late) == api.CodeNotFound && api.CodeOf(after) == api.CodeNotFound && before == nil && b.State == api.BootActive {
				return nil
			}
			return lab.OrElse(before, "late: %v, after: %v, before: %s", late, after, b.State)
		})
	}
	w.Audit()
	boot("r-again")
	z.ReleaseAll(z.Token, "r-again")
	z.ReleaseAll(z.Token, "r-before")
	assert.Empty(t, z.Usage())

	t.Log("a node is taken out, and another takes its place")
	gone := followers(t, z)[0]
	z.CLI("operator", "remove", string(gone.ID), "--yes")
	rest := slices.DeleteFunc([]string{"node-1", "node-2", "node-3"}, func(id string) bool { return id == string(gone.ID) })
	seeVoters(t, z, rest...)
	require.True(t, gone.Running(), "it still runs, and must not disturb")
	z.Forget(gone)
	z.Flavor("without", 1)
	require.NoError(t, gone.Stop())
	z.Join("node-4")
	seeVoters(t, z, append(rest, "node-4")...)

	t.Log("the leader may be taken out as well, and is forgotten")
	old := z.Leader()
	_, err := z.TryCLI(old, "operator", "remove", string(old.ID), "--yes")
	require.NoError(t, err)
	require.NoError(t, old.Stop())
	z.Forget(old)
	z.Leader()
	left := []string{string(z.Nodes[0].ID), string(z.Nodes[1].ID)}
	slices.Sort(left)
	seeVoters(t, z, left...)
	seeAddresses(t, z)
	z.Flavor("last", 1)
	w.Audit()

	t.Log("a snapshot of other times brings its instances back, and no other nodes")
	w.FromBackup()
	z.CLI("operator", "snapshot", "restore", file, "--yes", "--accept-unauthenticated") // a removed node has the key of its seal
	seeAddresses(t, z)
	seeVoters(t, z, left...)
	z.Flavor("last", 1)
	w.Audit()
}

// seeAddresses waits until newcomers are sent to exactly the nodes there are.
func seeAddresses(t *testing.T, z *lab.Zone) {
	t.Helper()
	var want []string
	for _, n := range z.Nodes {
		want = append(want, n.At.API)
	}
	slices.Sort(want)
	await.Until(t, "newcomers are sent to the nodes there are", func(ctx context.Context) error {
		token, err := z.Admin().CreateJoinToken(ctx, rest.JoinTokenSpec{Kind: api.JoinAgent, Name: "x"})
		if err != nil {
			return err
		}
		at := joinAddresses(t, token)
		slices.Sort(at)
		if !slices.Equal(at, want) {
			return lab.OrElse(nil, "a join token names %v, the nodes are at %v", at, want)
		}
		return nil
	})
}
