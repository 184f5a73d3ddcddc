package command

// Every command is for one book of the state, or for several: one marker below assigns it. The
// lint fails while a book has no case for one of its commands, and a case for a command of
// another book does not compile.

// ForMembers is what the members book applies: nodes, tokens, flavors, links, keys, settings.
//
//sumtype:decl
type ForMembers interface {
	Command
	forMembers()
}

// ForStock is what the stock book applies: hosts and other providers, aggregates, names.
//
//sumtype:decl
type ForStock interface {
	Command
	forStock()
}

// ForQuotas is what the quotas book applies: limits of projects.
//
//sumtype:decl
type ForQuotas interface {
	Command
	forQuotas()
}

// ForBindings is what the bindings book applies: what operators say of where projects go.
//
//sumtype:decl
type ForBindings interface {
	Command
	forBindings()
}

// ForWork is what the work book applies: reports of instances, attachments, server groups.
//
//sumtype:decl
type ForWork interface {
	Command
	forWork()
}

// ForSaga is what the saga applies: what becomes of holds, and of instances that depend on
// them.
//
//sumtype:decl
type ForSaga interface {
	Command
	forSaga()
}

// ForBoots is what the boots book applies: boots from order to release.
//
//sumtype:decl
type ForBoots interface {
	Command
	forBoots()
}

// ForLeases is a command for the book of leases.
//
//sumtype:decl
type ForLeases interface {
	Command
	forLeases()
}

// ForEvents is what the events book applies: webhooks.
//
//sumtype:decl
type ForEvents interface {
	Command
	forEvents()
}

// ForAudit is what the audit book applies: who proposes what follows.
//
//sumtype:decl
type ForAudit interface {
	Command
	forAudit()
}

// ForSeveral is what no book can apply alone.
//
//sumtype:decl
type ForSeveral interface {
	Command
	forSeveral()
}

func (Init) forMembers()         {}
func (NodePut) forMembers()      {}
func (NodeRemove) forMembers()   {}
func (FormRaise) forMembers()    {}
func (SchedulerSet) forMembers() {}
func (TokenPut) forMembers()     {}
func (TokenDelete) forMembers()  {}
func (TokensUsed) forMembers()   {}
func (RoleSet) forMembers()      {}
func (RoleDelete) forMembers()   {}
func (JoinPut) forMembers()      {}
func (JoinUse) forMembers()      {}
func (AgentRenew) forMembers()   {}
func (AgentTrust) forMembers()   {}
func (CAAdd) forMembers()        {}
func (LinkPin) forMembers()      {}
func (FlavorPut) forMembers()    {}
func (FlavorDelete) forMembers() {}
func (EpochAdd) forMembers()     {}
func (LinkPut) forMembers()      {}
func (LinkSet) forMembers()      {}

func (ConfigSet) forStock()       {}
func (AgentRevoke) forStock()     {}
func (HostsPut) forStock()        {}
func (HostsState) forStock()      {}
func (HostSet) forStock()         {}
func (HostDelete) forStock()      {}
func (AggregatePut) forStock()    {}
func (AggregateDelete) forStock() {}
func (ProviderCreate) forStock()  {}
func (ProviderDelete) forStock()  {}
func (ClassPut) forStock()        {}
func (ClassDelete) forStock()     {}
func (TraitPut) forStock()        {}
func (TraitDelete) forStock()     {}
func (PropertySet) forStock()     {}

func (QuotaSet) forQuotas()    {}
func (QuotaDelete) forQuotas() {}

func (BindingSet) forBindings() {}
func (BindingEnd) forBindings() {}

func (GroupPut) forWork()       {}
func (InstanceReport) forWork() {}
func (InstanceTold) forWork()   {}
func (HostsSilent) forWork()    {}
func (Restored) forWork()       {}
func (VolumeAttach) forWork()   {}
func (VolumeDetach) forWork()   {}
func (InstancePower) forWork()  {}

func (HoldParts) forSaga()       {}
func (HoldDecide) forSaga()      {}
func (PartAck) forSaga()         {}
func (InstanceDelete) forSaga()  {}
func (InstanceChanges) forSaga() {}
func (InstanceMove) forSaga()    {}
func (HostWriteOff) forSaga()    {}

func (GroupDelete) forBoots() {}
func (BootCreate) forBoots()  {}
func (BootDecide) forBoots()  {}
func (BootRelease) forBoots() {}
func (Requeue) forBoots()     {}

func (LeaseCreate) forLeases()   {}
func (LeaseSet) forLeases()      {}
func (LeaseDelete) forLeases()   {}
func (SeriesCreate) forLeases()  {}
func (SeriesDelete) forLeases()  {}
func (LeaseEndsTold) forLeases() {}
func (Tick) forLeases()          {}

func (WebhookPut) forEvents()    {}
func (WebhookDelete) forEvents() {}
func (WebhookResume) forEvents() {}
func (WebhooksTold) forEvents()  {}

func (Audit) forAudit() {}

func (Hold) forSeveral()           {}
func (LinkDelete) forSeveral()     {}
func (LinkWriteOff) forSeveral()   {}
func (LinkRelink) forSeveral()     {}
func (LinkReconciled) forSeveral() {}
func (LinkRestored) forSeveral()   {}
func (ProviderSet) forSeveral()    {}
func (ConsumersPut) forSeveral()   {}
func (ConsumerDelete) forSeveral() {}
func (Prune) forSeveral()          {}
func (Restore) forSeveral()        {}
func (KEKUse) forSeveral()         {}
func (CAUse) forSeveral()          {}
func (CADrop) forSeveral()         {}
