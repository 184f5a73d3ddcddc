package lab

import (
	"os"
	"strings"

	"github.com/stretchr/testify/require"

	"berth/api"
)

// BringBack replaces the disk of a zone's only node by an empty one, and brings the zone back from a file with a backup
// and a copy of its key, at the same addresses.
func (z *Zone) BringBack(n *NodeProc, file, kek string, id api.NodeID) {
	z.T.Helper()
	require.False(z.T, n.Running())
	require.NoError(z.T, os.RemoveAll(n.Dir))
	at := n.At
	out := z.mustRun(nil, "init", "--dir", n.Dir, "--from-backup", file, "--kek", kek, "--node", string(id),
		"--api-addr", at.API, "--gateway-addr", at.Gateway, "--node-addr", at.Node, "--agent-addr", at.Agent, "--admin-addr", at.Admin)
	n.ID = id
	require.NoError(z.T, n.advertiseProxy())
	n.Start()
	require.NotEmpty(z.T, out, "%s has a new token", z.Name)
	z.Token = out[strings.LastIndexByte(out, '\n')+1:]
	n.Ready()
}
