package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"berth/internal/crash"
)

// crashFile is where a service looks at its start for a point to end at. It is on
// no machine's disk.
func (s *Service) crashFile() string { return filepath.Join(s.w.Dir, s.Name+".crash") }

// ArmStart lets the service end itself the n-th time, from 1, that it reaches a
// point in the life of a process that is started after this, and in no other. It
// needs the tag chaos.
func (s *Service) ArmStart(at crash.Point, nth int) error {
	if err := checkPoint(at, nth); err != nil {
		return err
	}
	return os.WriteFile(s.crashFile(), []byte(fmt.Sprintf("%s %d\n", at, nth)), 0o600)
}

// checkPoint returns an error for a point that nobody can reach.
func checkPoint(at crash.Point, nth int) error {
	there := slices.Contains(slices.Concat(crash.Points(), crash.AgentPoints()), at)
	return orNil(there && nth > 0, "no process reaches %q for time %d", string(at), nth)
}

// Arm lets the node end itself the n-th time from now, from 1, that it reaches a
// point, in place of what it was armed with before. It needs the tag chaos.
func (n *NodeProc) Arm(ctx context.Context, at crash.Point, nth int) error {
	if err := checkPoint(at, nth); err != nil {
		return err
	}
	_, err := n.askAdmin(ctx, http.MethodPost, "/crash?point="+string(at)+"&n="+strconv.Itoa(nth))
	return err
}

// Disarm lets the node end itself at no point.
func (n *NodeProc) Disarm(ctx context.Context) error {
	_, err := n.askAdmin(ctx, http.MethodPost, "/crash")
	return err
}

// Points returns how often the node's process has reached each point since its
// start. It needs the tag chaos.
func (n *NodeProc) Points(ctx context.Context) (map[crash.Point]int, error) {
	body, err := n.askAdmin(ctx, http.MethodGet, "/crash")
	if err != nil {
		return nil, err
	}
	var out map[crash.Point]int
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, fmt.Errorf("reading how often points were reached: %w", err)
	}
	return out, nil
}
