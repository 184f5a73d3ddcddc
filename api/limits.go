package api

import "time"

// Limits of requests. Each is inclusive and has a test at the limit and one past it.
const (
	NameMaxBytes      = 64
	ClassesMax        = 32                // resource classes in one request, flavor or inventory
	AmountMax         = 1 << 36           // of one class on one host or in one slot
	RatioMax          = 10_000 * RatioOne // allocation ratio 10,000
	CountMax          = 10_000            // instances of one request
	GroupsMax         = 16                // groups of one request
	ExtraSpecsMax     = 64                // extra specs of one flavor
	ExtraSpecMaxBytes = 255               // of one key or value
	RulesMax          = 16                // rules of one request
	TraitsMax         = 64                // traits that one group names, or one host has
	HintHostsMax      = 64                // hosts or instances in one list of a hint
	MaintenanceMax    = CountMax          // hosts of one maintenance lease
	ZoneNamesMax      = 64                // names or tags in one list of a zone rule
	QueryMaxBytes     = 16 << 10          // of the hint query, as JSON text
	LifetimeMax       = WindowMax         // of one request
	AttributesMax     = 128               // attributes of one host, of each source
	AggregatesMax     = 1_000             // aggregates of one zone
	HostPropertiesMax = 10_000            // attributes of hosts for which a zone has a HostProperty
	QuotasMax         = 10_000            // projects of one zone with limits of their own
	ServerGroupsMax   = 10_000            // server groups of one project
	FiltersMax        = 64                // filters in the configuration of a zone, and costs
	ProviderNameMax   = 200               // characters of a provider's name
	ProvidersMax      = 100_000           // providers of one zone other than hosts
	TreeMax           = 4_096             // providers in one tree
	TreeDepthMax      = 32                // providers from a root to its deepest descendant, both counted
	ConsumersMax      = 1_000_000         // consumers of one zone other than instances
	ConsumersCallMax  = 1_000             // consumers in one call
	SharesMax         = 256               // providers that one consumer draws from
	CustomMaxBytes    = 255               // of a custom trait or resource class
	CustomClassesMax  = 1_000             // custom resource classes of one zone
	CustomTraitsMax   = 10_000            // custom traits of one zone
	ProviderAggsMax   = 1_000             // aggregates of one provider
	CandidatesMax     = 1_000             // allocation candidates in one answer, unless the caller sets a limit
	CandidatesCallMax = 10_000            // largest limit on candidates that a caller may set
	UnitMax           = 1<<31 - 1         // largest amount of one allocation by the placement API, and its default max_unit
	AdviceMax         = 8                 // advice to one group
	ExplainNamesMax   = 100               // hosts that an explanation names for one filter, in all groups together
	MetadataMax       = 64                // metadata pairs of one boot
	CommandArgsMax    = 64                // words of a flavor's command
	CommandMaxBytes   = 4096              // bytes of a flavor's command in all
	BodyMaxBytes      = 1 << 20           // a public request body
	SmallBodyMaxBytes = 64 << 10          // that of a call which says little
	JoinBodyMaxBytes  = 16 << 10          // that of a node or agent which joins: a token, a certificate request and names
	PlanBodyMaxBytes  = 9 << 20           // that of a call which takes up a sealed plan, in base64
	ZoneBodyMaxBytes  = 8 << 20           // a body between zones
	BlobMaxBytes      = 4 << 20           // one sealed plan
	DepthMax          = 8                 // zones between the asker and the deepest owner
	LinksMax          = 64                // children of one zone
	PageMax           = 1000              // items of one list answer
	ListMaxBytes      = 4 << 20           // of the items of one list answer, unless a single one is longer
	LostHostsMax      = 1_000             // hosts of one agent that were written off and are still known to it
	HostsPerAgentMax  = 10_000            // hosts that one agent may serve, those included that it no longer does
	AgentClassesMax   = 100               // custom resource classes of all hosts of one agent that makes new ones known
	AgentTraitsMax    = 1_000             // custom traits of the same
	AgentsMax         = 10_000            // whose joins and revocations a zone keeps
	AgentRatioMax     = 100 * RatioOne    // allocation ratio that an agent may report
	ReportsMax        = 5_000             // instance reports in one agent call
	ChangesMax        = 2_000             // changes in one answer to a parent
	DecisionsMax      = 128               // decisions on holds in one call of a parent
	HoldsMax          = 64                // holds in one call of a parent
	HoldsBytesMax     = 512 << 10         // the body of such a call; a larger hold has a call of its own
	WaitMax           = 5 * time.Minute   // ?wait= of any call
	WindowMax         = 10 * 365 * 24 * time.Hour
	HoldsPerLinkMax   = 10_000 // undecided instances that one parent may hold
	// TombstonesPerLinkMax is the number of aborts of holds that never arrived that are
	// kept for one parent.
	TombstonesPerLinkMax = 10_000
	// A parent may have so many percent of each resource class of a zone that says nothing else of
	// it: in undecided holds, and in all. With less than ShareMax in holds a lost parent leaves
	// the rest to others, and a boot of the parent in several zones cannot have all of one.
	ShareHeldDefault      = ShareMax
	ShareCommittedDefault = ShareMax
	ShareMax              = 100 // percent
	JoinTokenTTLMax       = time.Hour
	TokensMax             = 10_000
	RolesMax              = 100                  // that operators of one zone have made
	TokenRolesMax         = 8                    // roles of one token
	TokenTTLDefault       = 90 * 24 * time.Hour  // of a bearer token for which nobody says another one
	TokenTTLFirst         = 365 * 24 * time.Hour // of the token that a new zone begins with, likewise
	TokenUseEvery         = time.Hour            // between two records of the use of one token
	TokenUsesMax          = 1_000                // tokens in one such record
	FlavorsMax            = 1_000
	AttemptsMax           = 5                      // attempts of one boot that fail without contention
	HoldsPerBootMax       = 64                     // attempts of one boot in all
	AttemptsKept          = 10                     // attempts in the record of one boot: the first ones and the last
	PlanTTLDefault        = 60 * time.Second       // how long an offer is valid
	PlanTTLLeast          = 5 * time.Second        // a child's offer with a shorter life is useless
	PlanTTLMax            = 10 * time.Minute       // largest value that can be configured
	EpochsMax             = 16                     // keys that a zone keeps for plans
	SelectTimeout         = 5 * time.Second        // default budget of one select, all hops
	HopReserve            = 250 * time.Millisecond // the part of a budget that a zone keeps for itself
)
