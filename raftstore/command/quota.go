package command

import (
	"berth/api"
	"berth/quota"
)

// QuotaSet changes limits of a project, or the defaults of the zone if Project is "". Items
// that it does not name stay as they are; those in Unset have no limit of their own any more.
type QuotaSet struct {
	Stamp
	Project api.ProjectID `cbor:"2,keyasint,omitempty" log:"project_id"`
	Set     quota.Limits  `cbor:"3,keyasint,omitempty"`
	Unset   []quota.Item  `cbor:"4,keyasint,omitempty"`
}

// QuotaDelete takes all limits of its own from a project. A repeat changes nothing.
type QuotaDelete struct {
	Stamp
	Project api.ProjectID `cbor:"2,keyasint" log:"project_id"`
}

// Kind implements Command.
func (QuotaSet) Kind() Kind { return KindQuotaSet }

// Kind implements Command.
func (QuotaDelete) Kind() Kind { return KindQuotaDelete }
