package raftstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
)

// usual are the warnings and errors of Raft that a healthy zone has too, or that come many times a
// second while a member is away, by how they begin. They are debug: elections are logged as changes of
// leadership, a silent member by peerWatch, and a zone without a leader by the node.
var usual = []string{
	"failed to heartbeat to", "failed to contact", "failed to appendEntries to", "failed to pipeline appendEntries",
	"failed to start pipeline replication to", "failed to send snapshot to", "failed to make requestVote RPC",
	"failed to decode incoming command", "failed to flush response", // the other end of a connection is gone
	"peer has newer term, stopping replication", "new leader elected, stepping down", "duplicate requestVote from",
	"heartbeat timeout reached", "Election timeout reached, restarting election", "rejecting vote request", "rejecting pre-vote request",
	"no known peers, aborting election", "not part of stable configuration, aborting election", // a node that joins
	"failed to get previous log", "previous log term mis-match", "appendEntries rejected, sending older logs",
}

// isUsual reports whether a message is one of the usual ones.
func isUsual(msg string) bool {
	return msg != "failed to contact quorum of nodes, stepping down" &&
		slices.ContainsFunc(usual, func(start string) bool { return strings.HasPrefix(msg, start) })
}

// raftLog passes on what Raft logs: warnings and errors as they are, but for the usual ones, and the
// rest as debug. Once quiet is set all of it is debug, because a node that is closing
// has no peers to complain about.
type raftLog struct {
	log   *slog.Logger
	name  string
	args  []any
	quiet *atomic.Bool
}

var _ hclog.Logger = raftLog{}

func newRaftLog(l *slog.Logger, quiet *atomic.Bool) raftLog {
	return raftLog{log: l, name: "raft", quiet: quiet}
}

// Log implements hclog.Logger.
func (l raftLog) Log(level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch {
	case l.quiet.Load(), isUsual(msg):
	case level == hclog.Warn:
		to = slog.LevelWarn
	case level == hclog.Error:
		to = slog.LevelError
	}
	ctx := context.Background() // hclog has none to pass on
	if !l.log.Enabled(ctx, to) {
		return
	}
	attrs := append([]slog.Attr{slog.String("source", l.name)}, attrsOf(l.args)...)
	l.log.LogAttrs(ctx, to, msg, append(attrs, attrsOf(args)...)...) //nolint:sloglint // the message is Raft's
}

// attrsOf turns key, value pairs into attributes with keys in our spelling.
func attrsOf(args []any) []slog.Attr {
	var attrs []slog.Attr
	for ; len(args) >= 2; args = args[2:] {
		key := strings.NewReplacer("-", "_", " ", "_").Replace(fmt.Sprint(args[0]))
		value := args[1]
		if f, ok := value.(hclog.Format); ok && len(f) > 0 {
			value = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
		attrs = append(attrs, slog.Any(key, value))
	}
	return attrs
}

// Trace implements hclog.Logger.
func (l raftLog) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug implements hclog.Logger.
func (l raftLog) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info implements hclog.Logger.
func (l raftLog) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn implements hclog.Logger.
func (l raftLog) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error implements hclog.Logger.
func (l raftLog) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// IsTrace implements hclog.Logger.
func (l raftLog) IsTrace() bool { return l.IsDebug() }

// IsDebug implements hclog.Logger.
func (l raftLog) IsDebug() bool { return l.log.Enabled(context.Background(), slog.LevelDebug) }

// IsInfo implements hclog.Logger.
func (l raftLog) IsInfo() bool { return l.IsDebug() }

// IsWarn implements hclog.Logger.
func (l raftLog) IsWarn() bool { return l.log.Enabled(context.Background(), slog.LevelWarn) }

// IsError implements hclog.Logger.
func (l raftLog) IsError() bool { return l.log.Enabled(context.Background(), slog.LevelError) }

// ImpliedArgs implements hclog.Logger.
func (l raftLog) ImpliedArgs() []any { return l.args }

// With implements hclog.Logger.
func (l raftLog) With(args ...any) hclog.Logger {
	l.args = append(l.args[:len(l.args):len(l.args)], args...)
	return l
}

// Name implements hclog.Logger.
func (l raftLog) Name() string { return l.name }

// Named implements hclog.Logger.
func (l raftLog) Named(name string) hclog.Logger { return l.ResetNamed(l.name + "." + name) }

// ResetNamed implements hclog.Logger.
func (l raftLog) ResetNamed(name string) hclog.Logger {
	l.name = name
	return l
}

// SetLevel implements hclog.Logger; the level is the slog handler's business.
func (raftLog) SetLevel(hclog.Level) {}

// GetLevel implements hclog.Logger.
func (l raftLog) GetLevel() hclog.Level {
	if l.IsDebug() {
		return hclog.Debug
	}
	return hclog.Warn
}

// StandardLogger implements hclog.Logger.
func (l raftLog) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(opts), "", 0)
}

// StandardWriter implements hclog.Logger; what is written there is debug.
func (l raftLog) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{l} }

type lineWriter struct{ log raftLog }

func (w lineWriter) Write(p []byte) (int, error) {
	w.log.Debug(string(bytes.TrimSpace(p)))
	return len(p), nil
}
