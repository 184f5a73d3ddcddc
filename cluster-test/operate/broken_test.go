package operate

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/cluster-test/lab"
	"berth/internal/await"
)

var situationsFlag = flag.Bool("situations", false, "break things, and mend them as the runbooks say, which takes minutes")

// situation is something that breaks, with what shows it and what mends it.
type situation struct {
	name   string
	given  func(w *story) // what is there before
	breaks func(w *story)
	alert  string  // that is raised,
	sign   symptom // or the command that shows it
	books  []book  // what mends it, in this order
	healed func(w *story)
}

// symptom is a command whose output says that something is broken.
type symptom struct {
	place
	says string // a regular expression that matches then, and not before and afterwards
}

// book is a block of docs/runbooks.md, with what its words in capitals stand for.
type book struct {
	section string
	step
	fill map[string]string
}

// TestBrokenSituations breaks things in every way that is told of in docs/runbooks.md, and mends each as that page says, as
// written. Before, and afterwards, no alert is raised.
func TestBrokenSituations(t *testing.T) {
	if !*situationsFlag {
		t.Skip("takes minutes: make years")
	}
	lab.Need(t)
	library := blocks(t, filepath.Join("..", "..", "docs", "runbooks.md"))
	var mu sync.Mutex // guards what follows
	var seen []sighting
	read, told := map[*block]bool{}, 0
	stories := map[string]func(*story) []situation{"nodes": aboutNodes, "hosts": aboutHosts, "zones": aboutZones, "years": aboutYears}
	t.Run("all", func(t *testing.T) {
		for name, tell := range stories {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := &story{town: newTown(t, "chaos"), watched: map[string]target{}, library: library, read: map[*block]bool{}}
				for _, s := range tell(w) {
					w.meet(&s)
				}
				mu.Lock()
				defer mu.Unlock()
				told++
				seen = append(seen, w.seen...)
				for b := range w.read {
					read[b] = true
				}
			})
		}
	})
	askPromtool(t, seen)
	for _, b := range library {
		why := unread[b.about+": "+b.first()]
		if told == len(stories) { // none failed, and -run has left none out
			assert.Equal(t, why == "", read[b], "%s: %s: a situation runs it, or it is listed with the reason why not: %s", b.about, b.first(), why)
		}
	}
}

// meet goes through one situation.
func (w *story) meet(s *situation) {
	w.t.Helper()
	w.t.Logf("== %s", s.name)
	if s.given != nil {
		s.given(w)
	}
	w.look(s, "before", false)
	s.breaks(w)
	w.look(s, "broken", true)
	for i := range s.books {
		w.follow(&s.books[i])
	}
	w.look(s, "mended", false)
	if s.healed != nil {
		s.healed(w)
	}
	w.boots()
}

// look waits until what shows the situation shows it, or does not.
func (w *story) look(s *situation, when string, broken bool) {
	w.t.Helper()
	when = s.name + ", " + when
	if s.alert != "" {
		w.see(when, findRule(w.t, s.alert), broken)
	}
	if s.sign.line == "" {
		return
	}
	says, m := regexp.MustCompile(s.sign.says), w.at(s.sign.at)
	await.Until(w.t, when, func(context.Context) error {
		_, text, err := m.try(s.sign.line)
		if says.MatchString(text) != broken {
			lab.Pass(w.t.Context(), pause)
			return fmt.Errorf("%s$ %s: %w\n%s", m.name, s.sign.line, err, text)
		}
		return nil
	})
}

// follow runs one block of a runbook.
func (w *story) follow(b *book) {
	w.t.Helper()
	for _, one := range w.library {
		if one.about != b.section || one.first() != b.first {
			continue
		}
		w.read[one] = true
		if b.before != nil {
			b.before(w)
		}
		for _, line := range one.commands() {
			for word, is := range b.fill {
				line = regexp.MustCompile(`\b`+word+`\b`).ReplaceAllLiteralString(line, is)
			}
			w.run(&b.step, line)
		}
		if b.after != nil {
			b.after(w)
		}
		return
	}
	require.Fail(w.t, "no such block", "%s: %s", b.section, b.first)
}

// boots checks that the zone does its work.
func (w *story) boots() {
	w.t.Helper()
	w.until("berth boot --flavor small --name probe --count 1 --lifetime 1h", "ACTIVE")
	w.until("berth server delete $(berth server list --status ACTIVE -o name | head -1) --yes", "")
}

// supervising matches lines to a supervisor.
var supervising = regexp.MustCompile(`^systemctl (start|restart|stop) (berth-\w+)`)

// supervise does what systemd would, which the machines do not have.
func (w *story) supervise(m *machine, verb, unit string) {
	w.t.Helper()
	line := m.units[unit]
	require.NotEmpty(w.t, line, "%s has no %s", m.name, unit)
	if dir := dirOf(line); m.running[dir] != nil && (verb != "start" || !m.runs(dir)) {
		m.stop(dir)
	}
	if verb != "stop" {
		m.start(line)
	}
}

// runs reports whether the node or the agent of a folder has not ended.
func (m *machine) runs(dir string) bool {
	select {
	case <-m.running[dir].done:
		return false
	default:
		return true
	}
}

// equip gives a machine what it would have from systemd: the log of each unit, and the state of one.
func (m *machine) equip() {
	m.t.Helper()
	script := fmt.Sprintf(`#!/bin/bash
unit='*' n=1000000
while [ $# -gt 0 ]; do
	case $1 in
	-u) unit=$2; shift 2;;
	-n) n=$2; shift 2;;
	-p) shift 2;;
	-g) pattern=$2; shift 2;;
	*) echo "journalctl $1: not here" >&2; exit 1;;
	esac
done
cat %s-$unit | grep -Pi -- "$pattern" | tail -n "$n"
`, filepath.Join(m.logs, m.name))
	file := filepath.Join(m.t.TempDir(), "journalctl")
	require.NoError(m.t, os.WriteFile(file, []byte(script), 0o700))
	m.do("install -m 755 " + file + " /usr/local/bin/journalctl && printf '#!/bin/sh\\npgrep -a berth\\n' > /usr/local/bin/systemctl && chmod 755 /usr/local/bin/systemctl")
}

// watch lets a process be scraped.
func (w *story) watch(name, zone, addr string) { w.watched[name] = target{zone, addr} }

// found makes a zone of one node, and lets its machine operate it.
func (w *story) found(zone, node string) {
	w.t.Helper()
	m := w.at(node)
	m.equip()
	token := m.do("berth init --dir " + data + " --name " + zone + " --token-expires never --host " + addresses[node])
	w.serve(m, "node", "berth node --dir "+data)
	m.knows(addresses[node]+":7600", token)
	m.do("berth flavor create small --vcpus 1 --ram 64M --command -- /bin/sleep 600")
	w.watch(node, zone, m.admin)
}

// joinNode lets a node join the zone that is operated.
func (w *story) joinNode(name, zone string) {
	w.t.Helper()
	w.at(name).equip()
	w.sendToken("node", name, name, "join.token")
	w.serve(w.at(name), "node", "berth node --dir "+data+" --join-file join.token --host "+addresses[name])
	w.votes(name)
	w.watch(name, zone, w.at(name).admin)
}

// joinAgent lets an agent with one host join.
func (w *story) joinAgent(name, zone string) {
	w.t.Helper()
	w.at(name).equip()
	w.sendToken("agent", "agent-"+name, name, "agent.token")
	w.serve(w.at(name), "agent", agentLine+" --join-file agent.token")
	w.watch(name, zone, "127.0.0.1:7605")
}

const agentLine = "berth agent --dir /var/lib/berth-agent --metrics-addr 127.0.0.1:7605"
