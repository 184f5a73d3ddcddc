package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The binary is built as the test itself is: with -race if it is, and with the
// tag chaos if it has it.
var buildFlags, buildTags []string

// built holds the binaries of this process.
var built struct {
	sync.Mutex                   // guards what follows, and is held while one is built
	dir        string            // "" until the first is built
	paths      map[string]string // by their tags, joined by commas, or their commit
}

// Main runs the tests of a package and then removes the binaries that they built.
// It returns the code to exit with.
func Main(m *testing.M) int {
	code := m.Run()
	built.Lock()
	defer built.Unlock()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // only a temporary file would be left
	}
	return code
}

// BuildBinary builds cmd/berth with these tags the first time, and returns its path. It
// is safe for concurrent use.
func BuildBinary(tags ...string) (string, error) {
	all := slices.Concat(buildTags, tags)
	slices.Sort(all)
	key := strings.Join(slices.Compact(all), ",")
	return buildOnce(key, func(path string) error {
		args := slices.Concat([]string{"build"}, buildFlags, []string{"-tags", key, "-o", path, "berth/cmd/berth"})
		if out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("building berth with tags %q: %w\n%s", key, err, out)
		}
		return nil
	})
}

// BuildCommit builds cmd/berth as it was at a commit of this repository the first time, and returns its path. It is
// not optimised, which takes two thirds of the time. It is safe for concurrent use.
func BuildCommit(commit string) (string, error) {
	return buildOnce("commit "+commit, func(path string) error {
		tree := path + ".tree"
		const script = `mkdir "$2" && git -C "$(git rev-parse --show-toplevel)" archive "$1" | tar -x -C "$2" && cd "$2" && go build -gcflags='berth/...=-N -l' -ldflags "-w -X main.version=$1" -o "$3" ./cmd/berth`
		if out, err := exec.CommandContext(context.Background(), "sh", "-c", script, "sh", commit, tree, path).CombinedOutput(); err != nil {
			return fmt.Errorf("building berth of commit %s: %w\n%s", commit, err, out)
		}
		return os.RemoveAll(tree)
	})
}

// buildOnce makes a binary at a path of its own the first time that a key is asked for, and returns the path.
func buildOnce(key string, build func(path string) error) (string, error) {
	built.Lock()
	defer built.Unlock()
	if path := built.paths[key]; path != "" {
		return path, nil
	}
	if built.dir == "" {
		dir, err := newDir()
		if err != nil {
			return "", err
		}
		built.dir, built.paths = dir, map[string]string{}
	}
	path := filepath.Join(built.dir, fmt.Sprintf("berth-%d", len(built.paths)))
	if err := build(path); err != nil {
		return "", err
	}
	built.paths[key] = path
	return path, nil
}
