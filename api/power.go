package api

// PowerOrder is what the owner of an instance wants of its process, besides that it exists.
type PowerOrder string

// The orders.
const (
	PowerStop    PowerOrder = "stop"    // it ends, and stays so; its room and its files are kept
	PowerStart   PowerOrder = "start"   // it runs; one that does changes nothing
	PowerRestart PowerOrder = "restart" // it ends, if it runs, and runs again
)

// Valid reports whether o is an order.
func (o PowerOrder) Valid() bool { return o == PowerStop || o == PowerStart || o == PowerRestart }

// Run numbers the runs of an instance that its owner has ordered, from 1, which is the boot. An
// agent starts an instance once for each.
func (i *Instance) Run() uint64 { return i.Runs + 1 }

// PowerCall asks a child for the run of an instance, with Run 0, or gives an order to the instance that is
// at this run. If another run was ordered since, the order changes nothing: so a call may be repeated.
type PowerCall struct {
	Instance InstanceID `cbor:"1,keyasint" form:"5"`
	Order    PowerOrder `cbor:"2,keyasint,omitempty"`
	Run      uint64     `cbor:"3,keyasint,omitempty"`
}

// PowerAnswer has the run of the instance after the call.
type PowerAnswer struct {
	Run uint64 `cbor:"1,keyasint"`
}
