package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/dev"
)

// TestAZonesFileOfTheWrongTypesIsRefusedInPlainWords.
func TestAZonesFileOfTheWrongTypesIsRefusedInPlainWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: r\nhosts: many\n": "hosts must be a whole number, not a string",
		"name: r\nnodes: [1]\n":  "nodes must be a whole number, not a list",
	} {
		err := yaml.UnmarshalWithOptions([]byte(text), new(dev.Spec), yaml.Strict())
		require.Error(t, err)
		assert.Contains(t, plainTypes(err.Error()), want)
		assert.NotContains(t, plainTypes(err.Error()), "Go")
	}
}

// TestWhatDevPrintsCanBePasted: it names the program as it was called.
func TestWhatDevPrintsCanBePasted(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "berth", asTyped("berth"))
	for _, path := range []string{"./bin/berth", "/opt/berth"} {
		assert.Equal(t, path, asTyped(filepath.FromSlash(path)))
	}
	var out strings.Builder
	e := &env{out: &out, errOut: &out}
	require.NoError(t, e.announceDev(readyFile{Zones: []readyZone{
		{Name: "root", Path: "root", API: "http://a:1", Token: "t-root"}, {Name: "west", Path: "root/west", API: "http://b:1", Token: "t-west"},
	}}, ""))
	assert.Contains(t, out.String(), "export BERTH_ADDR=http://a:1 BERTH_TOKEN=t-root\n")
	assert.Contains(t, out.String(), "export BERTH_ADDR=http://b:1 BERTH_TOKEN=t-west  # root/west\n")
}
