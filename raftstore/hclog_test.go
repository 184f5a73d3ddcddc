package raftstore

import (
	"bytes"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
)

func TestRaftLog(t *testing.T) {
	var out bytes.Buffer
	untimed := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	var quiet atomic.Bool
	l := newRaftLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug, ReplaceAttr: untimed,
	})), &quiet)
	l.Info("starting", "last-index", 7)
	l.With("peer", "n2").Named("net").Warn("cannot dial", "error", "refused")
	l.Error("odd", "servers", hclog.Fmt("%d of %d", 1, 3), "left over")
	l.Error("odd", "format", hclog.Format{})
	l.StandardLogger(nil).Print("from the standard logger")
	l.Error("failed to heartbeat to", "peer", "n2")
	l.Warn("failed to contact", "server-id", "n2")
	l.Warn("failed to contact quorum of nodes, stepping down")
	quiet.Store(true)
	l.Error("closing")
	assert.Equal(t, `level=DEBUG msg=starting source=raft last_index=7
level=WARN msg="cannot dial" source=raft.net peer=n2 error=refused
level=ERROR msg=odd source=raft servers="1 of 3"
level=ERROR msg=odd source=raft format=[]
level=DEBUG msg="from the standard logger" source=raft
level=DEBUG msg="failed to heartbeat to" source=raft peer=n2
level=DEBUG msg="failed to contact" source=raft server_id=n2
level=WARN msg="failed to contact quorum of nodes, stepping down" source=raft
level=DEBUG msg=closing source=raft
`, out.String())

	assert.True(t, l.IsInfo() && l.IsTrace() && l.IsError() && l.IsWarn())
	assert.Equal(t, hclog.Debug, l.GetLevel())
	terse := newRaftLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})), &quiet)
	assert.False(t, terse.IsInfo(), "what would be debug is not even built")
	assert.Equal(t, hclog.Warn, terse.GetLevel())
}
