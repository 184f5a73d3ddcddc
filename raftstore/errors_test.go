package raftstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// fates is every error value that Raft exports. index is what the future of an
// entry says: zero when the entry was never written.
var fates = []struct {
	name    string
	err     error
	unsent  fate // index 0
	written fate // index 7
}{
	{"ErrLeader", raft.ErrLeader, refused, unknown},
	{"ErrNotLeader", raft.ErrNotLeader, refused, unknown},
	{"ErrNotVoter", raft.ErrNotVoter, refused, unknown},
	{"ErrLeadershipLost", raft.ErrLeadershipLost, unknown, unknown},
	{"ErrAbortedByRestore", raft.ErrAbortedByRestore, unknown, unknown},
	{"ErrRaftShutdown", raft.ErrRaftShutdown, refused, unknown},
	{"ErrEnqueueTimeout", raft.ErrEnqueueTimeout, refused, unknown},
	{"ErrNothingNewToSnapshot", raft.ErrNothingNewToSnapshot, refused, unknown},
	{"ErrUnsupportedProtocol", raft.ErrUnsupportedProtocol, refused, unknown},
	{"ErrCantBootstrap", raft.ErrCantBootstrap, refused, unknown},
	{"ErrLeadershipTransferInProgress", raft.ErrLeadershipTransferInProgress, refused, unknown},
	{"ErrIncompatibleLogStore", raft.ErrIncompatibleLogStore, refused, unknown},
	{"ErrTransportShutdown", raft.ErrTransportShutdown, unknown, unknown},
	{"ErrPipelineShutdown", raft.ErrPipelineShutdown, unknown, unknown},
	{"ErrLogNotFound", raft.ErrLogNotFound, unknown, unknown},
	{"ErrPipelineReplicationNotSupported", raft.ErrPipelineReplicationNotSupported, unknown, unknown},
}

func TestFates(t *testing.T) {
	for _, c := range fates {
		for _, err := range []error{c.err, fmt.Errorf("wrapped: %w", c.err)} {
			assert.Equal(t, c.unsent, fateOf(err, 0), c.name)
			assert.Equal(t, c.written, fateOf(err, 7), c.name)
		}
		want := map[fate]api.Code{refused: api.CodeUnavailable, unknown: api.CodeTimeout}
		assert.Equal(t, want[c.unsent], api.CodeOf(failureOf("op", c.err, 0)), c.name)
		assert.Equal(t, api.CodeTimeout, api.CodeOf(failureOf("op", c.err, 7)), c.name)
	}
	for _, err := range []error{errors.New("disk full"), errBroken, context.DeadlineExceeded, context.Canceled} {
		assert.Equal(t, unknown, fateOf(err, 0), err)
	}
	assert.Equal(t, msgNotLeader, api.MessageOf(failureOf("op", raft.ErrNotLeader, 0)))
	assert.Equal(t, msgClosed, api.MessageOf(failureOf("op", errClosing, 0)))
	assert.Equal(t, msgBusy, api.MessageOf(failureOf("op", raft.ErrEnqueueTimeout, 0)))
	assert.Equal(t, msgUnknown, api.MessageOf(failureOf("op", raft.ErrLeadershipLost, 7)))
}

// TestFatesAreComplete reads the library's source, so that a new version with a new
// error fails here until somebody has thought about it.
func TestFatesAreComplete(t *testing.T) {
	listed := map[string]bool{}
	for _, c := range fates {
		listed[c.name] = true
	}
	for _, name := range exportedErrors(t, "github.com/hashicorp/raft") {
		assert.True(t, listed[name], "raft.%s has no fate", name)
		delete(listed, name)
	}
	assert.Empty(t, listed, "listed, but not in the library")
}

func exportedErrors(t *testing.T, path string) []string {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-json=Dir,GoFiles", path).Output()
	require.NoError(t, err)
	var pkg struct {
		Dir     string
		GoFiles []string
	}
	require.NoError(t, json.Unmarshal(list, &pkg))
	var names []string
	for _, f := range pkg.GoFiles {
		src, err := os.ReadFile(filepath.Join(pkg.Dir, f))
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), f, src, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				for _, n := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(n.Name, "Err") {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}

func TestReadFailures(t *testing.T) {
	assert.Equal(t, api.CodeTimeout, api.CodeOf(readFailure("op", context.DeadlineExceeded)))
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(readFailure("op", raft.ErrNotLeader)))
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(readFailure("op", raft.ErrLeadershipLost)))
}

func TestChangeFailures(t *testing.T) {
	require.NoError(t, changeFailure("op", nil, 0))
	assert.Equal(t, api.CodeConflict, api.CodeOf(changeFailure("op", errors.New("no voter left"), 0)))
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(changeFailure("op", raft.ErrNotLeader, 0)))
	assert.Equal(t, api.CodeTimeout, api.CodeOf(changeFailure("op", raft.ErrLeadershipLost, 9)))
}
