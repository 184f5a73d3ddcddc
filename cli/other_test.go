package cli

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestVersionHasTheDateOfItsCommit: as far as the build recorded it.
func TestVersionHasTheDateOfItsCommit(t *testing.T) {
	on := " (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	built := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "0a1b"}, {Key: "vcs.time", Value: "2030-01-31T12:00:00Z"}, {Key: "vcs.modified", Value: "false"}}
	assert.Equal(t, "berth v1"+on, versionOf("v1", nil).line())
	assert.Equal(t, "berth v1 of 2030-01-31T12:00:00Z"+on, versionOf("v1", built).line())
	built[3].Value = "true"
	assert.Equal(t, "berth v1 of 2030-01-31T12:00:00Z, modified"+on, versionOf("v1", built).line())
	b, err := json.Marshal(versionOf("v1", built))
	require.NoError(t, err)
	assert.JSONEq(t, `{"version": "v1", "commit": "0a1b", "commit_date": "2030-01-31T12:00:00Z", "modified": true, "go": "`+runtime.Version()+`", "platform": "`+runtime.GOOS+"/"+runtime.GOARCH+`"}`, string(b))
}
