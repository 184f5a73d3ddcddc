package raftstore

import (
	"errors"
	"fmt"

	"berth/api"
)

// ErrDamaged is wrapped by every error about bytes on a disk that are not the
// ones that were written.
var ErrDamaged = errors.New("damaged")

// damagef says what is wrong with the content of a file.
func damagef(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// refuseDamage turns damage into the error of a node that must not go on: it names what
// is damaged and says what to do. Other errors stay as they are.
func refuseDamage(node api.NodeID, err error) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	return api.Wrap(api.CodeConflict, "raftstore.Open", fmt.Sprintf("node %s cannot be trusted any more: %v; %s", node, err, rejoinHint(node)), err)
}

// rejoinHint says how a node whose memory is gone comes back: as another one. It may
// have voted, and must not vote again in the same term.
func rejoinHint(node api.NodeID) string {
	return fmt.Sprintf("take it out of its zone (berth operator remove %s) and let a new node join under a new id, with an empty directory", node)
}
