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
	paths      map[string]string // by their tags, joined by commas
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
	args := slices.Concat([]string{"build"}, buildFlags, []string{"-tags", key, "-o", path, "berth/cmd/berth"})
	if out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building berth with tags %q: %w\n%s", key, err, out)
	}
	built.paths[key] = path
	return path, nil
}
