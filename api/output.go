package api

import "time"

// Limits of what instances have printed, on its way to a reader.
const (
	OutputMaxBytes    = 256 << 10        // of one answer
	OutputTailDefault = 64 << 10         // bytes that a reader gets who does not say how many
	OutputWait        = 10 * time.Second // for the answer of a host, on the whole way through the zones
	OutputAsksMax     = 16               // open questions to one agent, in one answer to it and in one of it
	OutputAsksEach    = 4                // of them about one instance
	OutputAsksZoneMax = 1_024            // open questions to all agents of a zone
	OutputTotalMax    = 1 << 53          // largest offset: all numbers of JSON up to there are exact
)

// OutputStream names one of the outputs of an instance.
type OutputStream string

// The outputs.
const (
	Stdout OutputStream = "stdout"
	Stderr OutputStream = "stderr"
)

// OutputQuestion asks for a piece of what an instance has printed.
type OutputQuestion struct {
	Instance InstanceID   `cbor:"1,keyasint,omitempty" form:"5"`
	Stream   OutputStream `cbor:"2,keyasint,omitempty" form:"5"`
	// After is how many bytes from the beginning of the output the piece begins; not used with Last.
	After uint64 `cbor:"3,keyasint,omitempty" form:"5"`
	Limit int    `cbor:"4,keyasint,omitempty" form:"5"` // bytes of the piece, 1 to OutputMaxBytes
	Last  bool   `cbor:"5,keyasint,omitempty" form:"5"` // the newest bytes, whatever their offset
}

// OutputLack says why there is no piece of an output.
type OutputLack string

// The reasons. Append only; what a reader does not know is OutputUnreadable.
const (
	OutputUnstarted  OutputLack = "unstarted"  // the instance is on no host: it was not started yet, or has gone
	OutputSilent     OutputLack = "silent"     // its host, or a zone on the way there, does not answer
	OutputUnkept     OutputLack = "unkept"     // its driver keeps no output
	OutputOlder      OutputLack = "older"      // its agent, or a zone on the way, is of an earlier release
	OutputBusy       OutputLack = "busy"       // too many ask the same host
	OutputUnreadable OutputLack = "unreadable" // its host cannot read it
)

// OutputAnswer is a piece of what an instance has printed, or why there is none. It names no host and no file.
type OutputAnswer struct {
	// Offset is where the piece begins. It is larger than the After that was asked for if what was there is not kept any
	// more, and smaller if there is nothing yet.
	Offset uint64     `cbor:"1,keyasint,omitempty" form:"5"`
	Total  uint64     `cbor:"2,keyasint,omitempty" form:"5"` // bytes that were printed in all: the offset of what comes next
	Data   []byte     `cbor:"3,keyasint,omitempty" form:"5"`
	Lack   OutputLack `cbor:"4,keyasint,omitempty" form:"5"` // then there is nothing else
}

// Validate returns an invalid-input error for a question that nobody answers.
func (q *OutputQuestion) Validate() error {
	if err := CheckName("instance", string(q.Instance)); err != nil {
		return err
	}
	switch {
	case q.Stream != Stdout && q.Stream != Stderr:
		return Errorf(CodeInvalid, "stream must be %s or %s, got %q", Stdout, Stderr, string(q.Stream))
	case q.Limit < 1 || q.Limit > OutputMaxBytes:
		return Errorf(CodeInvalid, "limit must be 1 to %d bytes, got %d", OutputMaxBytes, q.Limit)
	case q.After > OutputTotalMax:
		return Errorf(CodeInvalid, "after must be 0 to %d, got %d", uint64(OutputTotalMax), q.After)
	}
	return nil
}

// Accepts reports whether a can be the answer to q: others may send anything.
func (q *OutputQuestion) Accepts(a *OutputAnswer) bool {
	n := uint64(len(a.Data))
	switch {
	case a.Lack != "":
		return len(a.Lack) <= NameMaxBytes && n == 0 && a.Offset == 0 && a.Total == 0
	case len(a.Data) > q.Limit, a.Total > OutputTotalMax, a.Offset > a.Total, n > a.Total-a.Offset:
		return false
	case q.Last:
		return true
	case a.Offset < q.After:
		return n == 0 && a.Offset == a.Total
	}
	return true
}

// OutputAsk is a question to an agent, about an instance on one of its hosts.
type OutputAsk struct {
	ID       string         `cbor:"1,keyasint"` // of the question, not to be guessed
	Host     HostID         `cbor:"2,keyasint"`
	Question OutputQuestion `cbor:"3,keyasint"`
}

// AgentOutputs answers questions of the zone that came with one AgentWorkload, OutputAsksMax at most.
type AgentOutputs struct {
	Items []AgentOutput `cbor:"1,keyasint"`
}

// AgentOutput is the answer to one question.
type AgentOutput struct {
	ID     string       `cbor:"1,keyasint"`
	Answer OutputAnswer `cbor:"2,keyasint"`
}

// AgentOutputsMaxBytes bounds the body of AgentOutputs: OutputAsksMax answers with room to spare.
const AgentOutputsMaxBytes = OutputAsksMax * (OutputMaxBytes + 1<<10)
