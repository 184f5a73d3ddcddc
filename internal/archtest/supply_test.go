package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// required finds, in a go.mod, the modules and tools that are there for us, each alone on its line.
var required = regexp.MustCompile(`(?m)^(?:\t|tool )([a-zA-Z0-9.]+\.[a-z]+/\S+)(?: v\S+)?$`)

// majorOf ends the path of a module with its major version.
var majorOf = regexp.MustCompile(`/v[0-9]+$`)

// namesOf returns how a document may name a module: with its path, without the host, or by its last element.
func namesOf(module string) []string {
	path := majorOf.ReplaceAllString(module, "")
	if _, tool, ok := strings.Cut(path, "/cmd/"); ok {
		return []string{tool}
	}
	parts := strings.Split(path, "/")
	if strings.HasPrefix(path, "golang.org/x/") { // the last element is a word of its own
		return []string{path, "x/" + parts[2]}
	}
	return []string{path, strings.Join(parts[1:], "/"), parts[len(parts)-1]}
}

// isNamed reports whether a text has one of some names, not as a part of another.
func isNamed(text string, names []string) bool {
	for _, n := range names {
		if regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(n) + `($|[^\w-])`).MatchString(text) {
			return true
		}
	}
	return false
}

// TestEveryDependencyWasDecided: what a binary or a release is made with is named, with the reason, in a decision.
func TestEveryDependencyWasDecided(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "adr", "*.md"))
	require.NoError(t, err)
	var decisions strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		decisions.Write(text)
	}
	found := 0
	for _, mod := range []string{"go.mod", "tools/release/go.mod"} {
		text, err := os.ReadFile(filepath.Join(root, mod))
		require.NoError(t, err)
		for _, m := range required.FindAllStringSubmatch(string(text), -1) {
			found++
			assert.True(t, isNamed(decisions.String(), namesOf(m[1])), "%s requires %s, and no document in docs/adr says why", mod, m[1])
		}
	}
	assert.Greater(t, found, 20)
	assert.False(t, isNamed("raft-boltdb and graft", namesOf("github.com/hashicorp/raft")), "a part of a name is none")
	assert.True(t, isNamed("`raft`", namesOf("github.com/hashicorp/raft/v2")))
}

// TestReleasesCanBeChecked: the target that makes a release builds the same bytes everywhere, lists what is in them
// from what the main package links, sums all of it, and signs the sums; the tools are pinned by sums themselves.
func TestReleasesCanBeChecked(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	_, target, ok := strings.Cut(string(makefile), "\nrelease: ")
	require.True(t, ok)
	target, _, _ = strings.Cut(target, "\n\n")
	for _, step := range []string{
		"CGO_ENABLED=0", "-buildvcs=true", "-trimpath", "cyclonedx-gomod app -json -main cmd/berth", "sha256sum berth* >SHA256SUMS", "ssh-keygen -Y sign",
	} {
		assert.Contains(t, target, step)
	}
	sums, err := os.ReadFile(filepath.Join(root, "tools", "release", "go.sum"))
	require.NoError(t, err)
	for _, tool := range []string{"github.com/CycloneDX/cyclonedx-gomod", "golang.org/x/vuln"} {
		assert.Regexp(t, `(?m)^`+regexp.QuoteMeta(tool)+` v\S+ h1:`, string(sums))
	}
}
