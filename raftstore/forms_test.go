package raftstore

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// reads records which forms a member reads.
func reads(id api.NodeID, form api.Form) command.Command {
	return command.NodePut{Node: api.Node{ID: id, Form: form}}
}

// restartedAs stops a node and starts it from the same disk as a release whose newest
// form is form.
func (n *node) restartedAs(form api.Form) *node {
	n.t.Helper()
	n.cfg.Form = form
	return n.restart()
}

// TestUpgradeNodeByNode: what a member does not read is refused and not written, also when it waits already; and it is written
// once all of them read it and an operator has said so.
func TestUpgradeNodeByNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		since := api.Instant(1)
		newer := command.LinkSet{ID: "none", Silent: &since}
		raise := command.FormRaise{To: api.FormFifth}
		nodes := trio(t, newNetwork(), func(c *Config) { c.Form = api.FormFirst })
		lead := nodes[0]
		require.Equal(t, api.FormFirst, lead.Form(), "the form of its first entry")
		lead.must(reads("n1", api.FormFirst), reads("n2", api.FormFirst), reads("n3", api.FormFirst))

		refused := func(why string) {
			t.Helper()
			index := leaderOf(t, nodes...).View().Index()
			_, err := leaderOf(t, nodes...).Propose(within(t), newer)
			require.Equal(t, api.CodeUnavailable, api.CodeOf(err), why)
			require.ErrorContains(t, err, "the zone writes form 1")
			require.Equal(t, index, leaderOf(t, nodes...).View().Index(), "nothing was written")
		}
		for i, n := range nodes {
			refused("before node is upgraded: " + string(n.ID()))
			require.Equal(t, api.FormFirst, leaderOf(t, nodes...).FormAllRead())
			nodes[i] = n.restartedAs(api.FormFifth)
			leaderOf(t, nodes...).must(reads(n.ID(), api.FormFifth))
			if i == 1 { // and back again
				nodes[i] = nodes[i].restartedAs(api.FormFirst)
				leaderOf(t, nodes...).must(reads(n.ID(), api.FormFirst))
				nodes[i] = nodes[i].restartedAs(api.FormFifth)
				leaderOf(t, nodes...).must(reads(n.ID(), api.FormFifth))
			}
		}
		refused("before the upgrade is finished")
		lead = leaderOf(t, nodes...)
		require.Equal(t, api.FormFifth, lead.FormAllRead())
		require.NoError(t, lead.AddNonvoter(within(t), "n4", "n4:1"))
		require.Equal(t, api.FormFirst, lead.FormAllRead(), "a member without a record may be of any release")
		lead.must(reads("n4", api.FormFifth))
		require.Equal(t, api.FormFifth, lead.FormAllRead())
		for _, n := range nodes { // all may still go back
			require.NoError(t, checkForms(n.stores.logs, api.FormFirst))
		}

		waiting := &proposal{form: api.FormFirst, done: make(chan state.Answer, 1)}
		require.Len(t, lead.dropOutdated([]*proposal{waiting}), 1)
		lead.must(raise)
		require.Equal(t, api.FormFifth, lead.Form())
		require.Len(t, lead.dropOutdated([]*proposal{waiting, {form: api.FormFifth}}), 1, "forms of entries never fall")
		out := <-waiting.done
		require.Equal(t, api.CodeUnavailable, api.CodeOf(out.Err))

		r := lead.must(newer)
		require.Equal(t, api.CodeNotFound, api.CodeOf(r[0].Err), "it was written, and refused for itself")
		lead.must(command.NodePut{Node: api.Node{ID: "n1", APIAddr: "all read it", Form: api.FormFifth}})
		for _, n := range nodes {
			n.sees("n1", "all read it")
			require.Equal(t, saved(t, lead), saved(t, n))
			require.Equal(t, api.FormFifth, n.View().Form())
			require.ErrorContains(t, checkForms(n.stores.logs, api.FormFourth), "the zone writes form 5, and this node reads forms up to 4")
		}

		r = lead.must(reads("n3", api.FormFourth))
		require.Equal(t, api.CodeConflict, api.CodeOf(r[0].Err), "an older release cannot come back")
		require.NoError(t, lead.AddNonvoter(within(t), "n5", "n5:1"))
		require.Equal(t, api.FormFifth, lead.FormAllRead(), "a member without a record reads what is written")
	})
}

// TestAnOlderReleaseComesBack: a node that is started as an older release after the upgrade was finished ends with a sentence, before
// anything of the newer form is on its disk, and goes on as the newer release.
func TestAnOlderReleaseComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := trio(t, newNetwork(), func(c *Config) { c.Form = api.FormFourth })
		for i, n := range nodes {
			nodes[i] = n.restartedAs(api.FormFifth)
			leaderOf(t, nodes...).must(reads(n.ID(), api.FormFifth))
		}
		lead := leaderOf(t, nodes...)
		i := slices.IndexFunc(nodes, func(n *node) bool { return n != lead })
		back := nodes[i]
		back.stop()
		lead.must(command.FormRaise{To: api.FormFifth})

		told := make(chan error, 1)
		back.cfg.Form, back.cfg.Fatal = api.FormFourth, func(err error) { told <- err }
		for range 2 { // it can be started at all: its own log has nothing that it does not read, also after the first time
			back = back.restart()
			require.ErrorContains(t, toldBy(t, told), "the zone writes form 5, and this node reads forms up to 4: start it with the release of the other nodes")
		}

		back.cfg.Fatal = nil
		nodes[i] = back.restartedAs(api.FormFifth)
		lead.must(command.NodePut{Node: api.Node{ID: "n1", APIAddr: "it is back", Form: api.FormFifth}})
		nodes[i].sees("n1", "it is back")

		nodes[i].stop()
		nodes[i].cfg.Form = api.FormFourth
		nodes[i].cfg.Stream = nodes[i].cfg.Stream.(*port).net.listen(nodes[i].cfg.Advertise)
		_, err := Open(nodes[i].cfg)
		require.ErrorContains(t, err, "the zone writes form 5, and this node reads forms up to 4", "its log has it now")
	})
}

// toldBy returns what ended a node, nil if nothing has in good time.
func toldBy(t *testing.T, told <-chan error) error {
	select {
	case err := <-told:
		return err
	case <-within(t).Done():
		return nil
	}
}

// TestANewLeaderLearnsTheForm: a leader that has been elected, and has not applied the entry of the one before that raised the form,
// writes nothing in the older form behind it.
func TestANewLeaderLearnsTheForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, slow := newNetwork(), make(chan struct{})
		var held atomic.Value // the node that writes no entries until slow is closed
		held.Store(api.NodeID(""))
		nodes := trio(t, over, func(c *Config) {
			c.Form = api.FormFourth
			id := c.ID
			c.Crash = func(p crash.Point) {
				if p == crash.LogWriting && held.Load() == id {
					<-slow
				}
			}
		})
		for i, n := range nodes {
			nodes[i] = n.restartedAs(api.FormFifth)
			leaderOf(t, nodes...).must(reads(n.ID(), api.FormFifth))
		}
		old := leaderOf(t, nodes...)
		next, third := others(nodes, old)[0], others(nodes, old)[1]
		next.catchUp(old) // one that has loaded nothing yet knows no form but its own
		over.cut(third.cfg.Advertise, true)
		old.must(command.FormRaise{To: api.FormFifth})
		over.cut(old.cfg.Advertise, true)
		require.Equal(t, api.FormFourth, next.Form(), "nobody has told it that the entry counts")
		held.Store(third.ID())
		over.cut(third.cfg.Advertise, false)
		await.True(t, "the one with the entry leads", next.IsLeader)
		said := make(chan error, 1)
		go func() {
			_, err := next.Propose(within(t), put("a", "1"))
			said <- err
		}()
		synctest.Wait()
		require.Equal(t, api.FormFourth, next.Form(), "it leads, and has yet to apply the entry")
		close(slow)
		err := <-said
		require.Equal(t, api.CodeUnavailable, api.CodeOf(err))
		require.ErrorContains(t, err, "the zone has just begun to write form 5")
		next.must(put("a", "2"))
		third.sees("a", "2")
		require.Equal(t, []api.Form{api.FormFourth, api.FormFifth}, slices.Compact(formsOf(t, next)), "forms of entries never fall")
	})
}

// formsOf returns the forms of all entries in the log of a node.
func formsOf(t *testing.T, n *node) (all []api.Form) {
	t.Helper()
	first, _ := n.stores.logs.FirstIndex()
	last, _ := n.stores.logs.LastIndex()
	for i := first; i <= last; i++ {
		var l raft.Log
		require.NoError(t, n.stores.logs.GetLog(i, &l))
		if l.Type == raft.LogCommand {
			all = append(all, formOfEntry(l.Data))
		}
	}
	return all
}

// TestAnOlderReleaseIsSentASnapshot: it ends with the same sentence when the entries that it lacks are there no more.
func TestAnOlderReleaseIsSentASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := trio(t, newNetwork(), func(c *Config) { c.Form, c.Compact = api.FormFourth, Compaction{Trailing: 1} })
		for i, n := range nodes {
			nodes[i] = n.restartedAs(api.FormFifth)
			leaderOf(t, nodes...).must(reads(n.ID(), api.FormFifth))
		}
		lead := leaderOf(t, nodes...)
		back := others(nodes, lead)[0]
		back.stop()
		lead.must(command.FormRaise{To: api.FormFifth})
		for range 5 {
			lead.must(put("x", "1"))
		}
		require.NoError(t, lead.raft.Snapshot().Error())
		told := make(chan error, 1)
		back.cfg.Form, back.cfg.Fatal = api.FormFourth, func(err error) { told <- err }
		back.restart()
		require.ErrorContains(t, toldBy(t, told), "the zone writes form 5, and this node reads forms up to 4: start it with the release of the other nodes")
	})
}

// TestAFormOfTheFuture is refused at the start, and by the state machine.
func TestAFormOfTheFuture(t *testing.T) {
	_, err := Open(Config{ID: "n1", Memory: NewMemory(), Advertise: "n1:1", Stream: newNetwork().listen("n1:1"), Log: discard(), Form: api.FormNewest + 1})
	require.Equal(t, api.CodeInvalid, api.CodeOf(err))
	body, err := encodeCommands([]command.Command{initZone()}, api.FormSecond)
	require.NoError(t, err)
	var told error
	f := newFSM(api.FormFirst, func(err error) { told = err })
	f.Apply(logEntry(1, body))
	require.ErrorContains(t, told, "this node reads forms up to 1 and is older than the log")
}
