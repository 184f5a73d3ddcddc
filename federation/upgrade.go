package federation

import (
	"context"
	"sync"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// upgradeAsk is how long a linked zone may take to say which form it writes, for a report.
const upgradeAsk = 2 * time.Second

// errAdmitting refuses to finish an upgrade while a node is let in, and the other way round.
var errAdmitting = api.Errorf(api.CodeUnavailable, "a node joins the zone, or an upgrade of the zone is being finished; try again")

// UpgradeStatus returns how far an upgrade of the zone's nodes is. Linked zones are asked, for two seconds at most.
func (f *Federation) UpgradeStatus(ctx context.Context) (*rest.Upgrade, error) {
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	up := &rest.Upgrade{Form: v.Form(), Next: f.members.FormAllRead(), Nodes: []rest.UpgradeNode{}, Links: []rest.UpgradeLink{}}
	mixed := false
	for _, m := range f.Members() {
		up.Nodes = append(up.Nodes, rest.UpgradeNode{ID: m.ID, Version: m.Version, Form: m.Form, Voter: m.Voter, Alive: m.Alive})
		mixed = mixed || m.Form != up.Nodes[0].Form || m.Version != up.Nodes[0].Version
	}
	up.Phase = phaseOfUpgrade(up, mixed)
	for _, l := range v.Links() {
		up.Links = append(up.Links, rest.UpgradeLink{Name: l.Name, Role: l.Role})
	}
	ctx, cancel := context.WithTimeout(ctx, upgradeAsk)
	defer cancel()
	var all sync.WaitGroup
	for i, l := range v.Links() {
		all.Go(func() {
			if form, err := f.peers.ReadsForm(ctx, l); err == nil {
				up.Links[i].Form = form
			}
		})
	}
	all.Wait()
	return up, nil
}

// phaseOfUpgrade returns how far an upgrade is. The nodes are mixed if they run several releases.
func phaseOfUpgrade(up *rest.Upgrade, mixed bool) rest.UpgradePhase {
	switch {
	case mixed:
		return rest.UpgradeRolling
	case up.Next > up.Form:
		return rest.UpgradeReady
	}
	return rest.UpgradeFinished
}

// FinishUpgrade has the zone write the newest form that all its nodes read, after which no node can go back to an older release.
// It fails with CodeConflict if there is nothing to finish, or a node reads no newer form, or has not said what it reads. Only
// the leader may call it.
func (f *Federation) FinishUpgrade(ctx context.Context) error {
	if !f.admitting.TryLock() {
		return errAdmitting
	}
	defer f.admitting.Unlock()
	if err := f.ForgetRemoved(ctx); err != nil { // one on record alone would have the log refuse what follows
		return err
	}
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return err
	}
	for _, m := range f.members.Members() {
		if _, known := v.Node(m.ID); !known {
			return api.Errorf(api.CodeConflict, "node %q has not said yet which release it is; wait until berth operator members shows it", string(m.ID))
		}
	}
	raise := command.FormRaise{Stamp: f.zone.Stamp(), To: f.members.FormAllRead()}
	if err = checkRaise(v.Form(), raise); err != nil {
		return err
	}
	_, err = f.zone.Propose(ctx, raise)
	return err
}

// checkRaise refuses a command that does not raise the form, and one that not all nodes could read: it is of the form that
// introduced it, so its entry alone would raise the form of the zone, even if it were refused there.
func checkRaise(writes api.Form, raise command.FormRaise) error {
	if raise.To <= writes {
		return api.Errorf(api.CodeConflict, "there is no upgrade to finish: the zone writes form %d, the newest that all its nodes read", writes)
	}
	if need := command.NeededForm(raise); raise.To < need {
		return api.Errorf(api.CodeConflict, "an upgrade can be finished from form %d on, and the nodes read forms up to %d alone: start all of them with a newer release", need, raise.To)
	}
	return nil
}

// checkFifth refuses an action that needs form 5 while the zone writes an older one.
func checkFifth(writes api.Form, action string) error {
	if writes >= api.FormFifth {
		return nil
	}
	return api.Errorf(api.CodeConflict, "to %s needs form %d, and the zone writes form %d: start all nodes with the newer release, then finish the upgrade (berth operator upgrade)",
		action, api.FormFifth, writes)
}
