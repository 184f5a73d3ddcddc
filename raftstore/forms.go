package raftstore

import (
	"encoding/binary"
	"errors"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/raftstore/command"
)

// errNewerForm returns why a node cannot be in its zone.
func errNewerForm(form, newest api.Form) error {
	return api.Errorf(api.CodeConflict,
		"the zone writes form %d, and this node reads forms up to %d: start it with the release of the other nodes; nothing on its disk was changed", form, newest)
}

// formOfEntry returns the form that a node must read to have an entry in its log: that of its commands, and that to which
// one of them raises the form of the zone. What cannot be read is left to who decodes it.
func formOfEntry(entry []byte) (form api.Form) {
	for len(entry) > 0 {
		size, n := binary.Uvarint(entry)
		if n <= 0 || size < 2 || size > uint64(len(entry)-n) {
			break
		}
		c := entry[n : n+int(size)]
		form = max(form, api.Form(c[1]))
		if command.Kind(c[0]) == command.KindFormRaise {
			form = max(form, command.FormRaisedTo(c))
		}
		entry = entry[n+int(size):]
	}
	return form
}

// checkForms checks that a node reads the newest entry of its log, so that an older release ends before it takes part in
// anything. Forms of entries never fall. Of a snapshot, Raft finds out at the start.
func checkForms(logs raft.LogStore, newest api.Form) error {
	first, err1 := logs.FirstIndex()
	last, err2 := logs.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for i := last; i >= first && i > 0; i-- {
		var l raft.Log
		if err := logs.GetLog(i, &l); err != nil {
			return err
		}
		if l.Type != raft.LogCommand {
			continue
		}
		if form := formOfEntry(l.Data); form > newest {
			return errNewerForm(form, newest)
		}
		return nil
	}
	return nil
}

// answerNewerForm refuses entries that this node could not apply, before they are in its log, and ends the process: an older
// release was started again after the upgrade of its zone was finished. It reports whether the call was of that kind.
func (t *transport) answerNewerForm(c raft.RPC) bool {
	req, ok := c.Command.(*raft.AppendEntriesRequest)
	if !ok {
		return false
	}
	for _, l := range req.Entries {
		if l.Type != raft.LogCommand {
			continue
		}
		if form := formOfEntry(l.Data); form > t.newest {
			err := errNewerForm(form, t.newest)
			t.fail(err)
			c.Respond(nil, err)
			return true
		}
	}
	return false
}
