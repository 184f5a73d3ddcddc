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

// crashFile names the crash point that a service reads at its start. It is on no machine's
// disk.
func (s *Service) crashFile() string { return filepath.Join(s.w.Dir, s.Name+".crash") }

// ArmStart makes the service end itself when it reaches a point for the n-th time, from 1,
// but only in a process that is started after this. It needs the tag chaos.
func (s *Service) ArmStart(at crash.Point, nth int) error {
	if err := checkPoint(at, nth); err != nil {
		return err
	}
	return os.WriteFile(s.crashFile(), []byte(fmt.Sprintf("%s %d\n", at, nth)), 0o600)
}

// checkPoint returns an error for an unknown point.
func checkPoint(at crash.Point, nth int) error {
	there := slices.Contains(slices.Concat(crash.Points(), crash.LeasePoints(), crash.RequeuePoints(), crash.AgentPoints()), at)
	return orNil(there && nth > 0, "no process reaches %q for time %d", string(at), nth)
}

// Arm makes the node end itself when it reaches a point for the n-th time from now, from 1.
// It replaces an earlier Arm. It needs the tag chaos.
func (n *NodeProc) Arm(ctx context.Context, at crash.Point, nth int) error {
	if err := checkPoint(at, nth); err != nil {
		return err
	}
	_, err := n.askAdmin(ctx, http.MethodPost, "/crash?point="+string(at)+"&n="+strconv.Itoa(nth))
	return err
}

// Disarm removes the armed point.
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
