package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"berth/api"
	"berth/raftstore/command"
)

// An entry of the log is a sequence of commands, each behind its length as an
// unsigned varint. The order is the order of application. A command may leave out what the one
// before it has, if both are of one proposal: what is before the first of a proposal is not known
// when it is written.

// errEntry is wrapped by every error about an entry that cannot be read.
var errEntry = errors.New("unreadable log entry")

// encodeCommands returns the part of an entry that holds cmds, in order and in a form.
func encodeCommands(cmds []command.Command, form api.Form) ([]byte, error) {
	if len(cmds) == 0 || len(cmds) > commandsMax {
		return nil, api.Errorf(api.CodeInvalid, "a proposal holds 1 to %d commands, not %d", commandsMax, len(cmds))
	}
	var body []byte
	for i, c := range cmds {
		b, err := encodeCommand(cmds[:i], c, form)
		switch {
		case api.CodeOf(err) == api.CodeUnavailable:
			return nil, err
		case err != nil:
			return nil, api.Wrap(api.CodeInternal, opPropose, "", err)
		}
		body = binary.AppendUvarint(body, uint64(len(b)))
		body = append(body, b...)
		if len(body) > proposeMaxBytes {
			return nil, api.Errorf(api.CodeTooLarge, "a proposal holds at most %d bytes", proposeMaxBytes)
		}
	}
	return body, nil
}

// decodeEntry returns the commands of an entry, of forms up to newest. It decodes all of
// them before anything is applied.
func decodeEntry(entry []byte, newest api.Form) ([]command.Command, error) {
	var cmds []command.Command
	for len(entry) > 0 {
		size, n := binary.Uvarint(entry)
		if n <= 0 || size > uint64(len(entry)-n) {
			return nil, fmt.Errorf("%w: command %d is cut short", errEntry, len(cmds))
		}
		c, err := decodeCommand(cmds, entry[n:n+int(size)], newest)
		if err != nil {
			return nil, fmt.Errorf("%w: command %d: %w", errEntry, len(cmds), err)
		}
		cmds = append(cmds, c)
		entry = entry[n+int(size):]
	}
	if len(cmds) == 0 {
		return nil, fmt.Errorf("%w: it holds no command", errEntry)
	}
	return cmds, nil
}
