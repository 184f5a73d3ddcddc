package main

import (
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"berth/httpd/rates"
	"berth/node"
)

// reload reads the configuration file of a process again while the process runs. Only its loop uses it.
type reload struct {
	e      *env
	kind   processKind
	config *configFlag
	logs   *logFlags
	log    *slog.Logger
	now    map[string][]string // values of the settings that the process runs with
	told   *supervised
	take   func(fresh *cobra.Command) error // takes over what can be reloaded, besides the level of the log; nil for nothing
	files  func() bool                      // reads files that settings name, and reports whether there are any; nil for none
}

func newReload(c *cobra.Command, e *env, k processKind, config *configFlag, logs *logFlags, log *slog.Logger, told *supervised, take func(*cobra.Command) error) *reload {
	r := &reload{e: e, told: told, kind: k, config: config, logs: logs, log: log, now: map[string][]string{}, take: take}
	for name := range k.known {
		r.now[name] = valuesAsInFile(c, name)
	}
	return r
}

// follow reads the file again at each SIGHUP, until the returned function is called. SIGHUP does not end the process any more.
func (r *reload) follow() (stop func()) {
	hup, end, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		defer close(done)
		for {
			select {
			case <-hup:
				r.readAgain()
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-done
		signal.Ignore(syscall.SIGHUP) // the process is about to end in good order
	}
}

// readAgain takes over what has changed in the file. A file with a mistake changes nothing.
func (r *reload) readAgain() {
	r.told.tell(r.told.to.Reloading())
	defer func() { r.told.tell(r.told.to.Ready(r.told.state())) }()
	if r.config.path == "" && r.files != nil && r.files() {
		return
	}
	if r.config.path == "" {
		r.log.Info("there is nothing to read again: the process was started without --config")
		return
	}
	fresh, err := r.readFresh()
	if err == nil && r.take != nil {
		err = r.take(fresh)
	}
	if err != nil {
		r.log.Error("the configuration file was not taken over, and nothing has changed", "file", r.config.path, "error", plainMessage(err))
		return
	}
	before := r.logs.now.Level()
	_ = r.logs.setLevel(flagText(fresh, "log-level")) // it was checked
	after := r.logs.now.Level()
	r.logs.now.Set(min(before, after, slog.LevelInfo)) // what has changed is worth a line at any level
	changed := 0
	for _, name := range slices.Sorted(maps.Keys(r.kind.known)) {
		was, now := r.now[name], valuesAsInFile(fresh, name)
		rule := r.kind.known[name]
		if slices.Equal(was, now) || rule.kept && !fresh.Flags().Changed(name) {
			continue
		}
		changed++
		from, to := strings.Join(was, ","), strings.Join(now, ",")
		if !rule.reload {
			r.log.Warn("a setting in the configuration file needs a restart", "setting", name, "before", from, "then", to)
			continue
		}
		r.now[name] = now
		r.log.Info("a setting has changed", "setting", name, "before", from, "now", to)
	}
	r.log.Info("the configuration file was read again", "file", r.config.path, "different", changed)
	r.logs.now.Set(after)
}

// readFresh returns a command with the settings that a start would have now.
func (r *reload) readFresh() (*cobra.Command, error) {
	fresh := r.kind.command(r.e)
	for name, values := range r.config.typed {
		if err := setValues(fresh, name, values); err != nil {
			return nil, err
		}
		fresh.Flags().Lookup(name).Changed = true
	}
	file, err := readSettings(r.e.in, r.config.path, fresh, r.kind.known)
	if err == nil {
		_, err = file.apply(fresh)
	}
	return fresh, err
}

func flagText(c *cobra.Command, name string) string { return c.Flags().Lookup(name).Value.String() }

// runNode runs a node that reads its configuration file again on SIGHUP.
func (e *env) runNode(c *cobra.Command, n *node.Node, config *configFlag, logs *logFlags, log *slog.Logger) error {
	told := newSupervised(log, n.Alive, n.Describe)
	r := newReload(c, e, kindOf(false), config, logs, log, told, func(fresh *cobra.Command) error {
		return takeOver(n, fresh)
	})
	r.files = n.ReadAPICert
	defer r.follow()()
	return told.run(c.Context(), func() error { return n.Run(c.Context()) })
}

// takeOver has a node use the settings that it can change while it runs: all of them, or none.
func takeOver(n *node.Node, fresh *cobra.Command) error {
	f := fresh.Flags()
	given, err := f.GetStringToInt64("rate")
	if err != nil {
		return err
	}
	r, err := rates.Defaults().With(given)
	if err != nil {
		return err
	}
	every, _ := f.GetDuration("backup-every") // both have this type: the flags are ours
	keep, _ := f.GetInt("backup-keep")
	schedule := node.BackupSchedule{Dir: flagText(fresh, "backup-dir"), Every: every, Keep: keep}
	if err = schedule.Validate(); err != nil {
		return err
	}
	if err = n.SetAPICert(apiCertOf(fresh)); err != nil { // it looks at files, so that it may fail
		return err
	}
	if err = n.SetBackups(schedule); err != nil {
		return err
	}
	n.SetRates(r)
	return nil
}
