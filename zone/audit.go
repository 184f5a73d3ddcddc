package zone

import (
	"context"
	"slices"

	"berth/api"
	"berth/internal/actor"
	"berth/internal/requestid"
	"berth/raftstore/command"
)

// audited lists the kinds of commands that are recorded whoever proposes them.
var audited = map[command.Kind]bool{
	command.KindNodePut: true, command.KindNodeRemove: true, command.KindFormRaise: true, command.KindConfigSet: true, command.KindSchedulerSet: true,
	command.KindTokenPut: true, command.KindTokenDelete: true, command.KindRoleSet: true, command.KindRoleDelete: true, command.KindJoinPut: true, command.KindJoinUse: true,
	command.KindFlavorPut: true, command.KindFlavorDelete: true, command.KindEpochAdd: true, command.KindKEKUse: true, command.KindAgentRevoke: true, command.KindAgentRenew: true,
	command.KindLinkPut: true, command.KindLinkDelete: true, command.KindLinkWriteOff: true, command.KindHostWriteOff: true, command.KindLinkRelink: true,
	command.KindCAAdd: true, command.KindCAUse: true, command.KindCADrop: true, command.KindLinkPin: true,
	command.KindQuotaSet: true, command.KindQuotaDelete: true,
	command.KindAggregatePut: true, command.KindAggregateDelete: true,
}

// auditedOf lists those that are recorded only if an actor of some kind proposes them:
// otherwise they are daily work.
var auditedOf = map[api.ActorKind]map[command.Kind]bool{
	api.ActorToken: {
		command.KindHostSet: true, command.KindHostDelete: true, command.KindHoldDecide: true, command.KindLinkSet: true,
		command.KindBindingSet: true, command.KindBindingEnd: true, command.KindPropertySet: true,
		command.KindProviderCreate: true, command.KindProviderSet: true, command.KindProviderDelete: true,
		command.KindClassPut: true, command.KindClassDelete: true, command.KindTraitPut: true, command.KindTraitDelete: true,
	},
	api.ActorAgent: {command.KindHostsPut: true},
	api.ActorLink:  {command.KindLinkSet: true},
}

// isAudited reports whether a command of an actor is recorded.
func isAudited(by api.AuditActor, c command.Command) bool {
	if audited[c.Kind()] || auditedOf[by.Kind][c.Kind()] {
		return true
	}
	if by.Kind != api.ActorToken {
		return false
	}
	switch c := c.(type) { //nolint:gochecksumtype // the others are in the sets above
	case command.ConsumersPut:
		return c.Reshape != nil // otherwise it is the work of a service
	case command.LeaseSet:
		return c.Terms.Project != by.Project
	case command.LeaseDelete:
		return c.Project != by.Project
	case command.SeriesDelete:
		return c.Project != by.Project
	}
	return false
}

// withAudit returns cmds behind a command that says who proposes them, if one of them is
// recorded in the audit log and all nodes of the zone read that.
func (z *Zone) withAudit(ctx context.Context, cmds []command.Command) []command.Command {
	call := actor.Of(ctx)
	if !slices.ContainsFunc(cmds, func(c command.Command) bool { return isAudited(call.By, c) }) || z.store.Form() < api.FormFifth {
		return cmds
	}
	note := z.auditOf(ctx)
	note.Count = len(cmds)
	return append([]command.Command{note}, cmds...)
}

func (z *Zone) auditOf(ctx context.Context) command.Audit {
	call := actor.Of(ctx)
	return command.Audit{
		Stamp: z.Stamp(), Actor: call.By, Request: requestid.Of(ctx), Call: call.Path[:min(len(call.Path), api.AuditCallMaxBytes)],
	}
}

// Audit records a change that is no command in the audit log, such as a restore.
func (z *Zone) Audit(ctx context.Context, target string) error {
	if z.store.Form() < api.FormFifth {
		return nil
	}
	note := z.auditOf(ctx)
	note.Target = target
	_, err := z.store.Propose(ctx, note)
	return err
}
