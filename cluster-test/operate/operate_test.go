package operate

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/cluster-test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// block is a block of commands in the document.
type block struct {
	about string // the heading above it
	lines []string
}

// first is how a step names its block.
func (b *block) first() string { return b.lines[0] }

// blocks returns the blocks of a document in its order.
func blocks(t *testing.T, path string) (all []*block) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var about string
	var in *block
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch fence := strings.HasPrefix(line, "```"); {
		case in == nil && fence:
			in = &block{about: about}
		case fence:
			all, in = append(all, in), nil
		case in != nil && line != "":
			in.lines = append(in.lines, line)
		case in == nil && strings.HasPrefix(line, "#"):
			about = strings.TrimLeft(line, "# ")
		}
	}
	require.Nil(t, in, "a block does not end")
	return all
}

// commands returns the lines of a block that are typed. What a console block prints is not.
func (b *block) commands() (out []string) {
	console := strings.HasPrefix(b.first(), "$ ")
	for _, line := range b.lines {
		typed, isTyped := strings.CutPrefix(line, "$ ")
		if isTyped == console {
			out = append(out, typed)
		}
	}
	return out
}

// step says how one block is run.
type step struct {
	first  string           // line of the block
	at     string           // machine, by default that from which the zone is operated
	lines  map[string]place // for the lines that begin so
	before func(w *story)   // what the text around it assumes
	after  func(w *story)   // what the text promises
	notRun string           // why it is not run
}

// place is where a line is run, and what is run if the document says to fill something in.
type place struct{ at, line string }

// skipped is the place of a line that is another way to do what a line before it has done.
const skipped = "skipped"

// TestOperateAsWritten runs every block of docs/operate.md.
func TestOperateAsWritten(t *testing.T) {
	lab.Need(t)
	all := blocks(t, filepath.Join("..", "..", "docs", "operate.md"))
	w := &story{town: newTown(t), operator: "node-1"}
	for i := range max(len(all), len(steps)) {
		require.Less(t, i, len(steps), "a block has no step that runs it, or says why not")
		require.Less(t, i, len(all), "a step has no block: %s", steps[i].first)
		s, b := steps[i], all[i]
		require.Equal(t, s.first, b.first(), "step %d, in %q: each block has one, in the order of the document", i, b.about)
		t.Logf("== %s", b.about)
		if s.notRun != "" {
			continue
		}
		if s.before != nil {
			s.before(w)
		}
		for _, line := range b.commands() {
			w.run(&s, line)
		}
		if s.after != nil {
			s.after(w)
		}
	}
}

// daemon matches a line that does not end by itself.
var daemon = regexp.MustCompile(`^berth (node|agent) --dir (\S+)`)

// asks matches lines that ask before they do what they say, and that are repeated while they are refused.
var asks = regexp.MustCompile(`--(lost|force)$|operator recover|zone relink|ca (use|finish)$`)

// looks matches lines that say by their exit code what they find, or that find nothing at a machine that is broken.
var looks = regexp.MustCompile(`^(journalctl|systemctl status)|--what-if$|^berth (operator members|explain)`)

// writes matches the file that a line writes for another machine.
var writes = regexp.MustCompile(`> ((?:join|link|agent)\.token)`)

// run runs one line of a block.
func (w *story) run(s *step, line string) {
	w.t.Helper()
	at, told := cmp.Or(s.at, w.operator), line
	for begin, other := range s.lines {
		if strings.HasPrefix(line, begin) {
			at, told = other.at, cmp.Or(other.line, line)
		}
	}
	if at == skipped {
		return
	}
	m := w.at(at)
	if found := daemon.FindStringSubmatch(told); found != nil {
		w.serve(m, found[1], told)
		return
	}
	if found := supervising.FindStringSubmatch(told); found != nil {
		w.supervise(m, found[1], found[2])
		return
	}
	if asks.MatchString(told) {
		command, _, _ := strings.Cut(told, " #")
		m.until(strings.TrimSpace(command)+" --yes", "")
		return
	}
	if looks.MatchString(told) {
		w.said, _, _ = m.try(told)
		w.t.Logf("%s$ %s\n%s", m.name, told, w.said)
		return
	}
	w.said = m.do(told)
	if file := writes.FindStringSubmatch(told); file != nil {
		for _, other := range s.lines {
			if other.at != skipped {
				m.copy(file[1], w.at(other.at), file[1])
			}
		}
	}
}

// serve starts a node or an agent, or starts it again, and waits until it serves.
func (w *story) serve(m *machine, kind, line string) {
	w.t.Helper()
	if dir := dirOf(line); m.running[dir] != nil {
		m.stop(dir)
	}
	m.start(line)
	if kind == "agent" {
		w.at(w.operator).until("berth host list --state up -o name", m.name+"\n")
		return
	}
	if _, rest, ok := strings.Cut(line, "--admin-addr "); ok {
		m.admin, _, _ = strings.Cut(rest, " ")
	}
	m.until("curl -sf "+m.admin+"/readyz", "")
}

// story is a region and the zone west below it, with what the operators of both have done so far.
type story struct {
	*town
	operator string // the machine from which the zone is operated
	said     string // by the line before

	// Of situations: the processes that are scraped, by name, the blocks of the runbooks, those that were run, and what
	// was scraped.
	watched map[string]target
	library []*block
	read    map[*block]bool
	seen    []sighting
}

// addresses are those of the machines in the document, and of those that it does not name.
var addresses = map[string]string{
	"node-1": "10.0.0.5", "node-2": "10.0.0.6", "node-3": "10.0.0.7", "new": "10.0.0.9",
	"h1": "10.0.1.1", "h2": "10.0.1.2", "h3": "10.0.1.3", "region": "10.0.2.1", "supervised": "10.0.3.1",
	"node-4": "10.0.0.8", "node-5": "10.0.0.10", "node-6": "10.0.0.11", "east": "10.0.4.1", "copy": "10.0.1.4",
}

func (w *story) at(name string) *machine {
	w.t.Helper()
	require.NotEmpty(w.t, addresses[name], "no machine %q", name)
	return w.machine(name, addresses[name])
}

// do runs a line where the zone is operated.
func (w *story) do(line string) string { w.t.Helper(); return w.at(w.operator).do(line) }

// until repeats a line where the zone is operated until it prints what is wanted.
func (w *story) until(line, prints string) { w.t.Helper(); w.at(w.operator).until(line, prints) }

// knows lets the operator of a machine call a zone with a token.
func (m *machine) knows(address, token string) {
	m.t.Helper()
	m.do(fmt.Sprintf("export BERTH_ADDR=https://%s BERTH_CACERT=/var/lib/berth/ca.pem BERTH_TOKEN=%s", address, strings.TrimSpace(token)))
}

// makeRegion makes the zone above.
func (w *story) makeRegion() {
	w.t.Helper()
	m := w.at("region")
	token := m.do("berth init --dir /var/lib/berth --name region --host 10.0.2.1")
	w.serve(m, "node", "berth node --dir /var/lib/berth")
	m.knows("10.0.2.1:7600", token)
	m.do("berth flavor create small --vcpus 1 --ram 1G --disk 10G")
}

// addHost lets an agent join.
func (w *story) addHost(name string) {
	w.t.Helper()
	w.sendToken("agent", "agent-"+name, name, "agent.token")
	w.serve(w.at(name), "agent", "berth agent --dir /var/lib/berth-agent --join-file agent.token")
}

// sendToken puts a join token where a node or an agent starts.
func (w *story) sendToken(kind, name, to, file string) {
	w.t.Helper()
	w.do("berth join-token create --kind " + kind + " --name " + name + " > sent.token")
	w.at(w.operator).copy("sent.token", w.at(to), file)
}

// votes waits until a node has a vote.
func (w *story) votes(node string) {
	w.t.Helper()
	w.until("berth operator members --jq '.members[] | select(.voter) | .id'", node)
}
