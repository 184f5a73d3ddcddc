package state

import "berth/api"

// Topic names something that a caller may wait for. Each command that may change it touches
// the topic, so that a poll looks again only after entries that concern it.
type Topic struct {
	kind   topicKind
	a1, a2 string
}

type topicKind uint8

const (
	topicEverything topicKind = iota
	topicWork
	topicChanges
	topicBoot
	topicLease
	topicSeries
	topicEvents
	topicWebhooks
	topicLeaseEnds
	topicHold
	topicDue
)

// Everything is the zero Topic. A command that replaces the whole state touches it, and so do rare ones that concern all agents: all who
// wait for any topic must look again.
var Everything = Topic{}

// WorkTopic names what an agent polls for: which hosts it serves, whether they
// are up, and what should run on them. See Serves and WorkAfter.
func WorkTopic(a api.AgentID) Topic { return Topic{kind: topicWork, a1: string(a)} }

// ChangesTopic names the changes of the instances of a parent.
// See Changes.
func ChangesTopic(origin api.LinkID) Topic { return Topic{kind: topicChanges, a1: string(origin)} }

// BootTopic names the record of a boot of this zone. See Boot.
func BootTopic(p api.ProjectID, r api.ReservationID) Topic {
	return Topic{kind: topicBoot, a1: string(p), a2: string(r)}
}

// LeaseTopic names the record of a lease of this zone. See Lease.
func LeaseTopic(id api.LeaseID) Topic { return Topic{kind: topicLease, a1: string(id)} }

// SeriesTopic names the record of a series of leases of this zone. See OneSeries.
func SeriesTopic(id api.SeriesID) Topic { return Topic{kind: topicSeries, a1: string(id)} }

// EventsTopic names the events of a project of this zone, and with "" all events. See Events.
func EventsTopic(p api.ProjectID) Topic { return Topic{kind: topicEvents, a1: string(p)} }

// WebhooksTopic names which webhooks there are, and whether they are paused. See Webhooks.
func WebhooksTopic() Topic { return Topic{kind: topicWebhooks} }

// LeaseEndsTopic names the ends of leases that the external service is to be told. See LeaseEnds.
func LeaseEndsTopic() Topic { return Topic{kind: topicLeaseEnds} }

// HoldTopic names whether the instances of a hold are undecided, by its key. See UndecidedHoldOf.
func HoldTopic(key string) Topic { return Topic{kind: topicHold, a1: key} }

// Due is a kind of work for the leader of a zone.
type Due string

// The kinds of work. The key of each is that of one record.
const (
	DueBoots   Due = "boots"   // a boot is undecided; key Boot.ID
	DueTells   Due = "tells"   // a child must be told the decision on a hold; key Hold.Key
	DueEnds    Due = "ends"    // a child must be told to end an instance; key its id
	DueFollows Due = "follows" // a link was made; key its id
)

// dueTopic names that work of a kind has arisen for the record with a key.
func dueTopic(d Due, key string) Topic { return Topic{kind: topicDue, a1: string(d), a2: key} }

// Due returns the kind of work that the topic names, and the key of its record. It returns
// false for a topic that names no work.
func (t Topic) Due() (d Due, key string, ok bool) { return Due(t.a1), t.a2, t.kind == topicDue }

// Touched returns the topics that the last command has touched, in order and possibly with
// repeats. The slice is valid until the next Apply.
func (s *entry) Touched() []Topic { return s.touched }

// touchTopic adds a topic to those that the command has touched.
func (s *entry) touchTopic(t Topic) {
	if n := len(s.touched); n == 0 || s.touched[n-1] != t {
		s.touched = append(s.touched, t)
	}
}
