package state

// What Save writes of the records, without texts that their makers choose. Measured with names and
// identities of usual length; a test of package bench holds the sum
// against what Save writes.
const (
	sizeHeader   = 4_096
	sizeHost     = 110
	sizeProvider = 250
	sizeConsumer = 250
	sizeBoot     = 500
	sizeHold     = 400
	sizeInstance = 150 // and its slot in a hold, without the identity
	sizeSlotText = 60  // the identity in the slot and in the instance; that in the boot is a text
	sizeLease    = 1_200
	sizeEvent    = 150
	sizeOther    = 200
)

// SizeBytes estimates what Save writes, without a look at each record. It is right within a factor of
// two if most of the state is hosts, boots, instances, leases and texts of these; other records have
// an average size. Two nodes with the same state have the same estimate.
func (s *State) SizeBytes() int64 {
	n := sizeHeader + s.hosts.Len()*sizeHost + s.providers.Len()*sizeProvider + s.consumers.Len()*sizeConsumer +
		s.boots.Len()*sizeBoot + s.holds.Len()*sizeHold + s.instances.Len()*(sizeInstance+2*sizeSlotText) +
		s.leases.Len()*sizeLease + s.events.Len()*sizeEvent +
		(s.tokens.Len()+s.flavors.Len()+s.links.Len()+s.groups.Len()+s.plans.Len()+s.quotas.Len()+s.bindings.Len()+s.queue.Len()+s.webhooks.Len())*sizeOther
	out := int64(n) + s.hostTexts + s.holdTexts + s.bootTexts
	if s.upload != nil {
		out += s.upload.bytes
	}
	return out
}

// textsOf returns the bytes of the texts of a host that its agent and its operator choose.
func (h *Host) textsOf() int64 {
	n := len(h.Maintenance)
	for _, m := range []map[string]string{h.Attributes, h.Overrides} {
		for k, v := range m {
			n += len(k) + len(v)
		}
	}
	for _, list := range [][]string{h.Traits, h.OwnTraits, h.OwnAggregates} {
		for _, t := range list {
			n += len(t)
		}
	}
	return int64(n + 16*(len(h.Inventory)+len(h.OwnInventory)))
}

// textsOf returns the bytes of the metadata of a hold. They stay the same while it is there.
func (h *Hold) textsOf() int64 {
	n := 0
	for k, v := range h.Metadata {
		n += len(k) + len(v)
	}
	return 2 * int64(n) // once more with the instances
}
