package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/await"
)

// flaky is a driver some of whose next calls fail.
type flaky struct {
	*fake.Driver
	mu    sync.Mutex     // guards what follows
	fails map[string]int // how many of the next calls fail, by name
	calls map[string]int
}

func newFlaky(o fake.Options) *flaky {
	return &flaky{Driver: fake.New(o), fails: map[string]int{}, calls: map[string]int{}}
}

func (d *flaky) fail(call string, times int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails[call], d.calls[call] = times, 0
}

func (d *flaky) called(call string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[call]
}

func (d *flaky) outcome(call string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[call]++
	if d.fails[call] == 0 {
		return nil
	}
	d.fails[call]--
	return errors.New(call + " fails")
}

func (d *flaky) List(ctx context.Context) ([]driver.State, error) {
	if err := d.outcome("list"); err != nil {
		return nil, err
	}
	return d.Driver.List(ctx)
}

func (d *flaky) Stop(ctx context.Context, id api.InstanceID) error {
	if err := d.outcome("stop"); err != nil {
		return err
	}
	return d.Driver.Stop(ctx, id)
}

func (d *flaky) Halt(ctx context.Context, id api.InstanceID) error {
	if err := d.outcome("halt"); err != nil {
		return err
	}
	return d.Driver.Halt(ctx, id)
}

func (d *flaky) Kill(ctx context.Context, id api.InstanceID) error {
	if err := d.outcome("kill"); err != nil {
		return err
	}
	return d.Driver.Kill(ctx, id)
}

func (d *flaky) Attach(ctx context.Context, id api.InstanceID, volumes []api.InstanceID) error {
	if err := d.outcome("attach"); err != nil {
		return err
	}
	return d.Driver.Attach(ctx, id, volumes)
}

// TestADriverThatCannotListIsAskedAgain: nothing starts before its list is known, also that of a call without an outcome.
func TestADriverThatCannotListIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newFlaky(fake.Options{})
		d.fail("list", 10)
		defer run(t, config(z, d, 1))()
		z.set("host-0001", work("a"))
		await.Sleep(2 * time.Second)
		assert.Empty(t, running(t, d.Driver))
		await.Sleep(time.Minute)
		assert.Equal(t, []string{"a"}, running(t, d.Driver))
		d.fail("list", 3)
		d.fail("stop", 1)
		z.set("host-0001", stopping("a"))
		await.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, running(t, d.Driver))
		assert.Equal(t, api.StatusDeleted, z.of("a"))
	})
}

// TestFailedCallsAreRepeatedLessAndLess: the pauses grow with each failure in a row, up to a limit, and are short again after a success.
func TestFailedCallsAreRepeatedLessAndLess(t *testing.T) {
	const forever = 1 << 20
	volume, with := work("v"), powered("a", false, 0)
	volume.Volume, with.Volumes = "standard", []api.InstanceID{"v"}
	for call, then := range map[string][]api.Workload{"attach": {volume, with}, "halt": {powered("a", true, 0)}, "stop": {stopping("a")}} {
		synctest.Test(t, func(t *testing.T) {
			z, d := newZone(), newFlaky(fake.Options{})
			defer run(t, config(z, d, 1))()
			z.set("host-0001", powered("a", false, 0))
			settle()
			d.fail(call, forever)
			z.set("host-0001", then...)
			await.Sleep(time.Minute)
			synctest.Wait()
			assert.Greater(t, d.called(call), 20, call)
			assert.Less(t, d.called(call), 40, call)
			if call != "halt" {
				return
			}
			d.fail(call, 0)
			settle()
			require.Equal(t, api.StatusShutoff, z.of("a"))
			z.set("host-0001", powered("a", false, 1))
			settle()
			require.Equal(t, api.StatusActive, z.of("a"))
			d.fail(call, 1)
			z.set("host-0001", powered("a", true, 1))
			await.Sleep(time.Second)
			synctest.Wait()
			assert.Equal(t, api.StatusShutoff, z.of("a"), "the first pause is short")
		})
	}
}

// TestAKillThatFailsIsRepeated: of what the zone has written off, and of what has a fence; nobody says that it is gone before.
func TestAKillThatFailsIsRepeated(t *testing.T) {
	for name, doom := range map[string]func(z *zone){
		"written off": func(z *zone) {
			z.do(func() {
				z.lost = []api.HostID{z.ids["host-0001"]}
				z.forgot, z.ids["host-0001"] = true, "another-id"
			})
		},
		"fenced": func(z *zone) { z.silence() },
	} {
		synctest.Test(t, func(t *testing.T) {
			z, d := newZone(), newFlaky(fake.Options{})
			c := config(z, d, 1)
			c.Dir = t.TempDir()
			defer run(t, c)()
			z.set("host-0001", fenced("a"))
			settle()
			d.fail("kill", 1<<20)
			doom(z)
			await.Sleep(5 * testFence)
			synctest.Wait()
			require.Equal(t, []string{"a"}, running(t, d.Driver), name)
			assert.NotContains(t, events(t, c.Dir, "a"), eventGone, name)
			d.fail("kill", 0)
			settle()
			assert.Empty(t, running(t, d.Driver), name)
			assert.Equal(t, eventGone, events(t, c.Dir, "a")[len(events(t, c.Dir, "a"))-1], name)
		})
	}
}

// TestAStartThatIsCutIsNoRestart: what a fence ends before it ran has not been started anew when it runs at last.
func TestAStartThatIsCutIsNoRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{StartDelay: testFence * 3 / 2})
		c := config(z, d, 1)
		c.Dir = t.TempDir()
		defer run(t, c)()
		settle()
		z.set("host-0001", fenced("a"))
		await.Sleep(time.Second)
		z.silence()
		await.Sleep(2 * testFence)
		synctest.Wait()
		require.Contains(t, events(t, c.Dir, "a"), eventFenced)
		require.NotContains(t, events(t, c.Dir, "a"), eventRunning)
		z.do(func() { z.leader = "n1:1" })
		await.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"a"}, running(t, d.Driver))
		require.Equal(t, api.StatusActive, z.of("a"))
		assert.Empty(t, z.restartsOf("a"))
	})
}

// TestAListOfAnEarlierLedgerIsTakenAgain: what a driver lists while the hosts get other ids is not of these.
func TestAListOfAnEarlierLedgerIsTakenAgain(t *testing.T) {
	d := fake.New(fake.Options{})
	a, err := New(config(newZone(), d, 1))
	require.NoError(t, err)
	next := newLedger([]api.HostID{"h"}, []driver.Driver{d})
	require.NoError(t, a.askDriver(t.Context(), &during{d, func() { a.ledger = next }}))
	assert.Empty(t, next.known)
	require.NoError(t, a.askDriver(t.Context(), d))
	assert.Equal(t, map[driver.Driver]bool{d: true}, next.known)
	require.NoError(t, a.Close())
}

// during is a driver in whose list something happens.
type during struct {
	*fake.Driver
	what func()
}

func (d *during) List(ctx context.Context) ([]driver.State, error) {
	d.what()
	return d.Driver.List(ctx)
}

// TestAZoneThatRegistersOtherHosts: an answer with fewer or more hosts than were registered is refused, and asked for again.
func TestAZoneThatRegistersOtherHosts(t *testing.T) {
	for _, n := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			z, d, odd := newZone(), fake.New(fake.Options{}), true
			c := config(z, d, 2)
			c.Transport = tripper(func(r *http.Request) (*http.Response, error) {
				z.mu.Lock()
				defer z.mu.Unlock()
				if odd && r.URL.Path == api.PathAgentRegister {
					return answer(http.StatusOK, api.AgentRegistered{Term: z.term, Hosts: []api.HostID{"x", "y", "z"}[:n]})
				}
				z.mu.Unlock()
				defer z.mu.Lock()
				return z.RoundTrip(r)
			})
			defer run(t, c)()
			z.set("host-0001", work("a"))
			settle()
			assert.Empty(t, running(t, d), "%d", n)
			z.do(func() { assert.Zero(t, z.beats, "%d", n); odd = false })
			settle()
			assert.Equal(t, []string{"a"}, running(t, d), "%d", n)
		})
	}
}

// TestARegistrationThatFailsIsRepeated: of hosts that the zone has forgotten, and of those that it has work for though nobody serves them.
func TestARegistrationThatFailsIsRepeated(t *testing.T) {
	for name, doom := range map[string]func(z *zone){
		"forgotten": func(z *zone) { z.do(func() { z.forgot = true }) },
		"strange":   func(z *zone) { z.set("host-0009", work("b")) },
	} {
		synctest.Test(t, func(t *testing.T) {
			z, d := newZone(), fake.New(fake.Options{})
			p, r := &partial{zone: z}, &record{}
			c := config(z, d, 1)
			c.Transport, c.Log = p, r.logger(slog.LevelInfo)
			defer run(t, c)()
			settle()
			p.refuse(api.PathAgentRegister)
			before := z.registered
			doom(z)
			await.Sleep(time.Minute)
			synctest.Wait()
			assert.NotEmpty(t, r.take(), name)
			p.refuse("")
			await.Sleep(time.Minute)
			synctest.Wait()
			z.do(func() { assert.Equal(t, before+1, z.registered, name) })
			z.set("host-0001", work("a"))
			settle()
			assert.Equal(t, []string{"a"}, running(t, d), name)
		})
	}
}

// older is a zone whose nodes read an older form.
type older struct {
	*zone
	form api.Form
}

func (z *older) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := z.zone.RoundTrip(r)
	if err == nil {
		resp.Header.Set(api.HeaderForm, z.form.String())
	}
	return resp, err
}

// TestAnOlderZoneIsToldOfNoRestarts: it could not read the report, which has the rest, once.
func TestAnOlderZoneIsToldOfNoRestarts(t *testing.T) {
	for _, form := range []api.Form{api.FormFifth - 1, api.FormFifth} {
		synctest.Test(t, func(t *testing.T) {
			z, d := newZone(), newTimed(fake.Options{})
			d.severed = []driver.State{{Host: "id-of-host-0001", Instance: "a", Fenced: true}}
			c := config(z, d, 1)
			c.Transport = &older{z, form}
			defer run(t, c)()
			z.set("host-0001", work("a"))
			settle()
			got := z.report("a")
			assert.Equal(t, api.StatusActive, got.Status, "form %d", form)
			assert.Equal(t, form >= api.FormFifth, got.Restarted != 0, "form %d", form)
			assert.Equal(t, form >= api.FormFifth, got.Reason != "", "form %d", form)
			z.do(func() {
				z.reports = slices.DeleteFunc(z.reports, func(r api.AgentReport) bool { return len(r.Items) == 0 })
				assert.Len(t, z.reports, 1, "form %d", form)
			})
		})
	}
}

// TestAFolderThatCannotBeUsed: an agent does not begin without the files that it was told to keep.
func TestAFolderThatCannotBeUsed(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"no folder": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"no term":   func(dir string) error { return os.MkdirAll(filepath.Join(dir, termFile), 0o700) },
		"term": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, termFile), []byte("-1"), 0o600))
		},
		"no journal": func(dir string) error { return os.MkdirAll(filepath.Join(dir, journalFile), 0o700) },
	} {
		c := config(newZone(), fake.New(fake.Options{}), 1)
		c.Dir = filepath.Join(t.TempDir(), "agent")
		require.NoError(t, spoil(c.Dir), name)
		_, err := New(c)
		require.Error(t, err, name)
	}
}

// TestNamesThatCannotBeKept are a warning each time: the agent serves all the same.
func TestNamesThatCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		c := config(z, d, 1)
		c.Dir = t.TempDir()
		var log bytes.Buffer
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		end := run(t, c)
		settle()
		end()
		assert.NotContains(t, log.String(), "WARN", "the first agent has no names of before")
		require.NoError(t, os.Remove(filepath.Join(c.Dir, namesFile)))
		require.NoError(t, os.MkdirAll(filepath.Join(c.Dir, namesFile, "x"), 0o700))
		end = run(t, c)
		z.set("host-0001", work("a"))
		settle()
		end()
		assert.Equal(t, []string{"a"}, running(t, d))
		for _, what := range []string{"names of the hosts of before cannot be read", "names of the hosts cannot be kept"} {
			assert.Equal(t, 1, strings.Count(log.String(), what), what)
		}
	})
}

// TestAJournalThatCannotBeWritten is warned of once, until it can be written again.
func TestAJournalThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	open := func() *os.Root {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		return root
	}
	var log bytes.Buffer
	j, err := openJournal(open(), time.Now, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	warned := func() int { return strings.Count(log.String(), "journal cannot be written") }
	for round := range 3 {
		if round == 0 {
			require.NoError(t, j.file.Close()) // it cannot be closed again
			j.max = 1
		} else {
			require.NoError(t, j.closeFile())
			require.NoError(t, j.root.Close())
		}
		j.writeLine(line{Event: eventTerm})
		assert.Equal(t, round+1, warned())
		if round > 0 {
			j.writeLine(line{Event: eventTerm})
			assert.Equal(t, round+1, warned(), "it is known")
		}
		j.root = open()
		j.writeLine(line{Event: eventTerm})
		j.writeLine(line{Event: eventTerm})
		assert.Equal(t, round+1, warned(), "it is written again")
	}
	require.NoError(t, j.closeFile())
	require.NoError(t, j.root.Close())
}

// TestAMessageThatCannotBeSent is an error, and is not sent.
func TestAMessageThatCannotBeSent(t *testing.T) {
	zone := &formedNode{form: api.FormNewest}
	ack := new(api.AgentAck)
	require.Error(t, newLink([]string{"a:1"}, zone).postTo(t.Context(), api.PathAgentReport, func() {}, ack), "it has no encoding")
	require.Error(t, newLink([]string{"a b:1"}, zone).postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, ack), "that is no address")
	assert.Empty(t, zone.paths)

	lost, calls := errors.New("lost"), 0
	l := newLink([]string{"a:1"}, tripper(func(*http.Request) (*http.Response, error) { calls++; return nil, lost }))
	needs := api.AgentRegister{Hosts: []api.AgentHost{{Needs: &api.Needs{Image: true}}}}
	require.ErrorIs(t, l.postTo(t.Context(), api.PathAgentRegister, needs, ack), lost, "nobody says what the zone reads")
	assert.Equal(t, 1, calls)
}

// TestHeadersOfACall: each has what a node needs to read it.
func TestHeadersOfACall(t *testing.T) {
	var head http.Header
	z := tripper(func(r *http.Request) (*http.Response, error) {
		head = r.Header
		return answer(http.StatusOK, api.AgentAck{})
	})
	require.NoError(t, newLink([]string{"a:1"}, z).postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, new(api.AgentAck)))
	assert.Equal(t, http.Header{
		"Content-Type": {api.MediaCBOR}, "Accept": {api.MediaCBOR}, api.HeaderForm: {api.FormNewest.String()}, api.HeaderRequestID: {""},
	}, head)
}

// TestTransportOfAnAgent: it has few connections, of one protocol, which do not wait for ever.
func TestTransportOfAnAgent(t *testing.T) {
	c := config(newZone(), fake.New(fake.Options{}), 1)
	conf, dialled := newTLS(), errors.New("dialled")
	got := newTransport(conf, nil)
	assert.NotNil(t, got.DialContext)
	assert.Empty(t, conf.NextProtos, "that of the caller stays as it is")
	assert.Equal(t, []string{api.ALPNHTTP}, got.TLSClientConfig.NextProtos)
	assert.Equal(t, []any{dialTimeout, true, connsMax, connsMax, time.Minute},
		[]any{got.TLSHandshakeTimeout, got.DisableCompression, got.MaxIdleConnsPerHost, got.MaxConnsPerHost, got.IdleConnTimeout})
	assert.NotNil(t, got.TLSNextProto, "no HTTP/2")
	c.Transport, c.TLS, c.Dial = nil, conf, func(context.Context, string, string) (net.Conn, error) { return nil, dialled }
	a, err := New(c)
	require.NoError(t, err)
	require.ErrorIs(t, a.link.postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, new(api.AgentAck)), dialled)
	require.NoError(t, a.Close())
}

// TestOnlyTheFirstQuestionsWait: those that come while others wait are dropped, and of many the first are kept.
func TestOnlyTheFirstQuestionsWait(t *testing.T) {
	a, err := New(config(newZone(), fake.New(fake.Options{}), 1))
	require.NoError(t, err)
	a.noteAsks(nil)
	assert.Empty(t, a.asks)
	many := make([]api.OutputAsk, api.OutputAsksMax+1)
	for _, n := range []int{api.OutputAsksMax, api.OutputAsksMax + 1} {
		a.noteAsks(many[:n])
		a.noteAsks(many[:1])
		assert.Len(t, <-a.asks, api.OutputAsksMax)
	}
	require.NoError(t, a.Close())
}

// TestTheEndOfACertificateIsAFigure.
func TestTheEndOfACertificateIsAFigure(t *testing.T) {
	c := config(newZone(), fake.New(fake.Options{}), 1)
	c.Wallet, _ = newWallet(t)
	a, err := New(c)
	require.NoError(t, err)
	assert.Equal(t, c.Wallet.FirstEnd(), a.Figures().Ends)
	assert.NotZero(t, a.Figures().Ends)
	require.NoError(t, a.Close())
}

// TestARecheckIsOfFencesAndNotices: an entry with neither does not have all others looked at again.
func TestARecheckIsOfFencesAndNotices(t *testing.T) {
	for _, c := range []struct {
		work api.Workload
		want bool
	}{{work("a"), false}, {stopping("a"), false}, {fenced("a"), true}, {evicted("a", time.Minute), true}} {
		d := fake.New(fake.Options{})
		b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
		b.applyStates(d, 0, nil)
		b.applyLists(listing("h", 1, c.work), b.nextQuestion(), time.Unix(1, 0))
		assert.Equal(t, c.want, b.recheck, "%+v", c.work)
	}
}

// TestWhatIsForgottenChangesNothing: an instance that was forgotten while a report of it was pending, and is listed again, is known
// when the zone takes other reports.
func TestWhatIsForgottenChangesNothing(t *testing.T) {
	d := fake.New(fake.Options{})
	b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
	b.applyStates(d, 0, nil)
	b.applyLists(listing("h", 1, work("a")), b.nextQuestion(), time.Time{})
	b.endCall(b.nextEntry(start), api.StatusActive, "")
	b.applyStates(d, b.seq, nil) // it is lost, and no report is due any more
	b.applyLists(listing("h", 2), b.nextQuestion(), time.Time{})
	require.Empty(t, b.hosts["h"].entries)
	b.applyLists(listing("h", 3, work("a")), b.nextQuestion(), time.Time{})
	b.noteAcked(nil)
	e := b.nextEntry(start)
	require.NotNil(t, e)
	b.endCall(e, api.StatusActive, "")
	assert.Len(t, b.pendingReports(1), 1)
}

// TestALineOfTheJournalAllocatesNothing: there are two for each instance that starts.
func TestALineOfTheJournalAllocatesNothing(t *testing.T) {
	l := line{At: time.Unix(1_700_000_000, 0).UTC(), Term: 7, Event: eventStart, Host: "host-0001", Instance: "i-1", Detail: "fence 30s"}
	b := make([]byte, 0, 512)
	assert.Zero(t, testing.AllocsPerRun(10, func() { b = l.appendJSON(b[:0]) }))
}

// TestEachLineOfTheJournal has all that there is to say of it.
func TestEachLineOfTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{Stubborn: true, FailStart: func(_ api.HostID, w api.Workload) error {
			if w.Instance == "bad" {
				return errors.New("no such image")
			}
			return nil
		}})
		d.severed = []driver.State{{Host: "id-of-host-0001", Instance: "left", Fenced: true}}
		c := config(z, d, 1)
		c.Dir = t.TempDir()
		end := run(t, c)
		for _, list := range [][]api.Workload{
			{work("a")}, {powered("b", false, 0)}, {powered("b", true, 0)}, {powered("b", false, 1)}, {work("bad")}, {fenced("f"), work("g")},
			{fenced("f"), evicted("g", time.Minute)}, {fenced("f"), evicted("g", time.Minute), stopping("h")},
		} {
			z.set("host-0001", list...)
			settle()
		}
		d.Exit("f", 3)
		await.Sleep(time.Minute)
		z.do(func() { z.term = 9 })
		settle()
		z.set("host-0001", fenced("k"))
		settle()
		z.do(func() { z.term = 8 })
		settle()
		z.silence()
		await.Sleep(2 * testFence)
		end()
		text, err := os.ReadFile(filepath.Join(c.Dir, journalFile))
		require.NoError(t, err)
		got := map[string]bool{}
		for l := range strings.Lines(string(text)) {
			var one line
			require.NoError(t, json.Unmarshal([]byte(l), &one))
			require.NotZero(t, one.At, l)
			got[strings.TrimSpace(fmt.Sprintf("%d %s %s/%s %s", one.Term, one.Event, strings.TrimPrefix(string(one.Host), "id-of-"), one.Instance, one.Detail))] = true
		}
		assert.Equal(t, []string{
			"0 fenced host-0001/left its agent ended",
			"0 gone host-0001/left",
			"1 absent host-0001/h",
			"1 ended host-0001/f exit code 3",
			"1 failed host-0001/bad no such image",
			"1 gone host-0001/a",
			"1 gone host-0001/b",
			"1 gone host-0001/bad",
			"1 gone host-0001/g",
			"1 halt host-0001/b",
			"1 halted host-0001/b",
			"1 killed host-0001/g its notice is over",
			"1 notice host-0001/g stop until 2000-01-01T00:02:30Z",
			"1 ordered host-0001/b run 2",
			"1 running host-0001/a",
			"1 running host-0001/b",
			"1 running host-0001/f",
			"1 running host-0001/g",
			"1 start host-0001/a",
			"1 start host-0001/b",
			"1 start host-0001/bad",
			"1 start host-0001/f fence 20s",
			"1 start host-0001/g",
			"1 stop host-0001/a",
			"1 stop host-0001/b",
			"1 stop host-0001/bad",
			"1 term /",
			"9 fenced host-0001/k no answer of the zone for 20s",
			"9 gone host-0001/f",
			"9 gone host-0001/k",
			"9 refused / /agent/report of a lower term",
			"9 running host-0001/k",
			"9 start host-0001/k fence 20s",
			"9 stop host-0001/f",
			"9 term /",
		}, slices.Sorted(maps.Keys(got)))
	})
}

// TestKillsAreLogged: once each, and what has neither a fence nor a notice is not mentioned.
func TestKillsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{Stubborn: true})
		c := config(z, d, 1)
		var log bytes.Buffer
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		end := run(t, c)
		z.set("host-0001", work("a"), work("b"), fenced("c"))
		settle()
		z.set("host-0001", work("a"), evicted("b", time.Minute), fenced("c"))
		await.Sleep(2 * time.Minute)
		z.silence()
		await.Sleep(2 * testFence)
		end()
		for _, what := range []string{"preemptible instances are killed at their deadline", "zone does not answer: instances with a fence are killed"} {
			assert.Equal(t, 1, strings.Count(log.String(), what), what)
			assert.Contains(t, log.String(), what+`" instances=1`)
		}
	})
}

// TestAnAckOfWhatIsForgotten: what the zone has taken of an instance that is not known any more changes nothing.
func TestAnAckOfWhatIsForgotten(t *testing.T) {
	d := fake.New(fake.Options{})
	b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
	b.noteAcked([]api.InstanceReport{{Host: "h", Instance: "a", Status: api.StatusActive}})
	assert.Empty(t, b.hosts["h"].entries)
}

// TestWhatAnEntryNeeds compares the next action, the report and the fence of an entry in each state with the rules in plain words.
func TestWhatAnEntryNeeds(t *testing.T) {
	bools := []bool{false, true}
	for _, have := range []api.Status{"", api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleted} {
		for n := range 1 << 11 {
			is := func(bit int) bool { return bools[n>>bit&1] }
			listed, ends, halts, ordered, busy, lapsed, stale, mounts, same := is(0), is(1), is(2), is(3), is(4), is(5), is(6), is(7), is(8)
			hostListed, driverListed := is(9), is(10)
			d := fake.New(fake.Options{})
			b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
			b.known[d], b.hosts["h"].listed = driverListed, hostListed
			e := b.entryOf(b.hosts["h"], "h", "a")
			e.listed, e.have, e.busy, e.lapsed, e.stale = listed, have, busy, lapsed, stale
			e.work.Stop, e.work.Halt, e.work.Fence = ends, halts, time.Second
			if ordered {
				e.work.Runs = 1
			}
			if mounts {
				e.work.Volumes = []api.InstanceID{"v"}
			}
			if same {
				e.told = have
			}
			name := fmt.Sprintf("%q listed %v, stop %v, halt %v, ordered %v, busy %v, lapsed %v, stale %v, volumes %v, told %v",
				have, listed, ends, halts, ordered, busy, lapsed, stale, mounts, same)
			runs, absent, wanted := have == api.StatusActive, have == "" || have == api.StatusDeleted, listed && !ends
			mustRun := wanted && !halts && (absent || !runs && ordered)
			mustEnd := wanted && runs && (halts || ordered)
			want := nothing
			switch {
			case busy, !hostListed, !driverListed:
			case lapsed:
				want = kill
			case !wanted && !absent:
				want = stop
			case mustEnd:
				want = halt
			case mustRun && !stale:
				want = start
			case wanted && runs && mounts:
				want = attach
			}
			require.Equal(t, actionNames[want], actionNames[b.decideAction(e)], name)
			news := have != "" && !same && !lapsed
			if have == api.StatusDeleted {
				news = news && !wanted && !busy
			} else {
				news = news && wanted && !mustRun && !mustEnd
			}
			require.Equal(t, news, b.mustReport(e), name)
			require.Equal(t, !lapsed && (busy || runs || mustRun && !stale), e.isFenced(), name)
		}
	}
}

// TestWhatIsPlaced: what is to end or to be stopped and is not here has ended already, and what nobody asks for any more is
// forgotten once the zone knows that it is gone.
func TestWhatIsPlaced(t *testing.T) {
	for _, have := range []api.Status{"", api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleted} {
		for n := range 1 << 7 {
			is := func(bit int) bool { return n>>bit&1 == 1 }
			listed, ends, halts, busy, lapsed, known, told := is(0), is(1), is(2), is(3), is(4), is(5), is(6)
			d := fake.New(fake.Options{})
			b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
			b.known[d], b.hosts["h"].listed = known, true
			e := b.entryOf(b.hosts["h"], "h", "a")
			e.listed, e.have, e.busy, e.lapsed, e.work.Stop, e.work.Halt = listed, have, busy, lapsed, ends, halts
			e.fault, e.runs = "fault", 3
			if told {
				e.told, e.toldFault = have, "fault"
			}
			name := fmt.Sprintf("%q listed %v, stop %v, halt %v, busy %v, lapsed %v, known %v, told %v", have, listed, ends, halts, busy, lapsed, known, told)
			b.placeEntry(e)
			still := !busy && !lapsed && known
			want, absent := have, listed && ends && have == "" && still
			switch {
			case absent:
				want = api.StatusDeleted
			case listed && !ends && halts && (have == "" || have == api.StatusDeleted) && still:
				want = api.StatusShutoff
				require.Zero(t, e.runs, name)
				require.Empty(t, e.fault, name)
			}
			require.Equal(t, want, e.have, name)
			require.Equal(t, absent, len(b.absent) == 1, name)
			forgotten := !listed && !busy && !lapsed && (want == "" || want == api.StatusDeleted && told)
			require.Equal(t, forgotten, len(b.hosts["h"].entries) == 0, name)
			require.Equal(t, forgotten, len(b.every) == 0, name)
			require.Equal(t, b.mustReport(e), len(b.say) == 1, name)
		}
	}
}

// TestWhatExpires: the deadline of what runs or may be started, once, at that very moment; and the next one is the soonest of the others.
func TestWhatExpires(t *testing.T) {
	due := time.Unix(100, 0)
	for name, c := range map[string]struct {
		change func(e *entry)
		want   bool
	}{
		"runs":        {func(*entry) {}, true},
		"starts":      {func(e *entry) { e.have, e.busy = "", true }, true},
		"later":       {func(e *entry) { e.due = due.Add(1) }, false},
		"without one": {func(e *entry) { e.due = time.Time{} }, false},
		"again":       {func(e *entry) { e.overdue = true }, false},
		"gone":        {func(e *entry) { e.have = api.StatusDeleted }, false},
		"not here":    {func(e *entry) { e.have = "" }, false},
	} {
		b := newLedger([]api.HostID{"h"}, []driver.Driver{fake.New(fake.Options{})})
		e, other := b.entryOf(b.hosts["h"], "h", "a"), b.entryOf(b.hosts["h"], "h", "b")
		last := b.entryOf(b.hosts["h"], "h", "c")
		e.have, e.due = api.StatusActive, due
		other.have, other.due = api.StatusActive, due.Add(time.Hour)
		last.have, last.due = api.StatusActive, due.Add(2*time.Hour)
		c.change(e)
		b.soonest = due
		struck, next := b.expireNotices(due.Add(-1))
		assert.Empty(t, struck, name)
		assert.Equal(t, due, next, name)
		struck, next = b.expireNotices(due)
		assert.Equal(t, c.want, len(struck) == 1, name)
		if name == "later" {
			assert.Equal(t, e.due, next)
		} else {
			assert.Equal(t, other.due, next, name)
		}
	}
}

// TestNewsForTheZone: another status, another fault, or another restart than it has heard of.
func TestNewsForTheZone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(e *entry)
		want   bool
	}{
		"nothing":   {func(*entry) {}, false},
		"status":    {func(e *entry) { e.told = "" }, true},
		"fault":     {func(e *entry) { e.toldFault = "other" }, true},
		"restarted": {func(e *entry) { e.restarted = 5 }, true},
	} {
		b := newLedger([]api.HostID{"h"}, []driver.Driver{fake.New(fake.Options{})})
		e := b.entryOf(b.hosts["h"], "h", "a")
		e.listed, e.have, e.fault, e.told, e.toldFault = true, api.StatusActive, "f", api.StatusActive, "f"
		c.change(e)
		assert.Equal(t, c.want, b.mustReport(e), name)
	}
}

// TestStrays: what is to end and is not here, although another agent of this machine has started it.
func TestStrays(t *testing.T) {
	d := &haunted{Driver: fake.New(fake.Options{}), stray: "a"}
	for name, c := range map[string]struct {
		change func(e *entry)
		want   bool
	}{
		"to end":     {func(*entry) {}, true},
		"to stop":    {func(e *entry) { e.work.Stop, e.work.Halt = false, true }, true},
		"to run":     {func(e *entry) { e.work.Stop = false }, false},
		"here":       {func(e *entry) { e.have = api.StatusActive }, false},
		"not listed": {func(e *entry) { e.listed = false }, false},
		"busy":       {func(e *entry) { e.busy = true }, false},
		"another":    {func(e *entry) { e.work.Instance = "b" }, false},
	} {
		e := &entry{listed: true, work: api.Workload{Instance: "a", Stop: true}}
		c.change(e)
		assert.Equal(t, c.want, e.isStray(d), name)
		assert.False(t, e.isStray(d.Driver), name)
	}
}

// TestARegistrationAsksForEverything: all lists are asked for again, and what runs is reported at once.
func TestARegistrationAsksForEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		z.beat = time.Hour
		defer run(t, config(z, d, 1))()
		z.set("host-0001", work("a"))
		settle()
		z.do(func() {
			require.NotZero(t, z.afters[len(z.afters)-1])
			z.forgot, z.afters = true, nil
			z.generation++ // ends the poll that waits
			clear(z.status)
		})
		await.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, api.StatusActive, z.of("a"))
		z.do(func() { assert.Contains(t, z.afters, uint64(0)) })
	})
}

// TestAnAnswerThatIsCutIsOfNoUse: the node that sent it is left.
func TestAnAnswerThatIsCutIsOfNoUse(t *testing.T) {
	cut := errors.New("cut")
	l := newLink([]string{"a:1", "b:1"}, tripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(iotest.ErrReader(cut))}, nil
	}))
	require.ErrorIs(t, l.postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, new(api.AgentAck)), cut)
	assert.Equal(t, "b:1", l.nextAddress())
}

// TestEachOutageHasItsAddresses: those of an earlier one are not named, nor those that only sent calls on.
func TestEachOutageHasItsAddresses(t *testing.T) {
	a, err := New(config(newZone(), fake.New(fake.Options{}), 1))
	require.NoError(t, err)
	now, r, failed := time.Unix(100, 0), &retry{}, errors.New("refused")
	for range 2 {
		a.outage.noteCall("n1:1", failed, now)
		a.outage.noteCall("n1:1", failed, now)
		assert.Equal(t, []string{"n1:1"}, a.outage.tried)
		a.noteFailure(t.Context(), r, "work", failed)
		other := &retry{}
		a.noteFailure(t.Context(), other, "report", failed)
		a.endFailures(t.Context(), other)
		assert.NotNil(t, a.outage.tried, "another loop still fails")
		a.endFailures(t.Context(), r)
		assert.Nil(t, a.outage.tried)
	}
	a.outage.noteCall("n2:1", errMoved, now)
	a.endFailures(t.Context(), r)
	assert.Nil(t, a.outage.tried)
	require.NoError(t, a.Close())
}

// unsure is a driver whose starts take place, and have an unknown outcome.
type unsure struct{ *flaky }

func (d unsure) Start(ctx context.Context, host api.HostID, w api.Workload) error {
	return errors.Join(driver.ErrEnded, d.Driver.Start(ctx, host, w))
}

// TestAnUnknownStartIsNotMadeAgain: the run that is found is the one that was ordered.
func TestAnUnknownStartIsNotMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newFlaky(fake.Options{})
		c := config(z, d, 1)
		c.Hosts[0].Driver = unsure{d}
		defer run(t, c)()
		z.set("host-0001", powered("a", false, 3))
		settle()
		assert.Equal(t, api.StatusActive, z.of("a"))
		assert.Equal(t, 1, d.Starts())
		assert.Zero(t, d.called("halt"))
	})
}

// TestAStartHasNoVolumesYet: they are attached to what runs now, and not to what ran before.
func TestAStartHasNoVolumesYet(t *testing.T) {
	d := fake.New(fake.Options{})
	a, err := New(config(newZone(), d, 1))
	require.NoError(t, err)
	a.ledger = newLedger([]api.HostID{"h"}, []driver.Driver{d})
	w := powered("a", false, 2)
	w.Volumes = []api.InstanceID{"v"}
	a.ledger.applyStates(d, 0, nil)
	a.ledger.applyLists(listing("h", 1, w), a.ledger.nextQuestion(), time.Time{})
	e, task := a.takeEntry(t.Context(), start, nil)
	e.attached = w.Volumes
	a.startInstance(t.Context(), e, task)
	assert.Equal(t, []any{[]api.InstanceID(nil), uint64(2), api.StatusActive}, []any{e.attached, e.runs, e.have})
	assert.Same(t, e, a.ledger.nextEntry(attach))
	require.NoError(t, a.Close())
}

// TestTheShortestFenceIsNext of those that have not expired.
func TestTheShortestFenceIsNext(t *testing.T) {
	for range 20 { // entries come in any order
		b := newLedger([]api.HostID{"h"}, []driver.Driver{fake.New(fake.Options{})})
		for n, fence := range []time.Duration{30, 10, 20, 40} {
			e := b.entryOf(b.hosts["h"], "h", api.InstanceID(strconv.Itoa(n)))
			e.have, e.work.Fence = api.StatusActive, fence*time.Second
		}
		b.shortest = 10 * time.Second
		struck, next := b.lapseFences(10*time.Second - 1)
		assert.Empty(t, struck)
		assert.Equal(t, 10*time.Second, next)
		struck, next = b.lapseFences(10 * time.Second)
		assert.Len(t, struck, 1)
		assert.Equal(t, 20*time.Second, next)
	}
}

// TestAnOrderedRunIsInTheJournal: one of what was here before, and is to run again.
func TestAnOrderedRunIsInTheJournal(t *testing.T) {
	for _, c := range []struct {
		have api.Status
		runs uint64
		want bool
	}{{"", 2, false}, {api.StatusDeleted, 2, false}, {api.StatusShutoff, 2, true}, {api.StatusError, 1, true}, {api.StatusShutoff, 0, false}} {
		d := fake.New(fake.Options{})
		conf := config(newZone(), d, 1)
		conf.Dir = t.TempDir()
		a, err := New(conf)
		require.NoError(t, err)
		a.ledger = newLedger([]api.HostID{"h"}, []driver.Driver{d})
		e := a.ledger.entryOf(a.ledger.hosts["h"], "h", "a")
		a.startInstance(t.Context(), e, task{driver: d, host: "h", work: powered("a", false, c.runs), have: c.have})
		require.NoError(t, a.Close())
		assert.Equal(t, c.want, slices.Contains(events(t, conf.Dir, "a"), eventOrdered), "%+v", c)
	}
}

// TestWhatHasEnded by itself is what was seen to run otherwise, and is not killed.
func TestWhatHasEnded(t *testing.T) {
	for _, c := range []struct {
		have, seen api.Status
		lapsed     bool
		ended      int
	}{
		{api.StatusActive, api.StatusShutoff, false, 1}, {api.StatusActive, api.StatusError, false, 1}, {api.StatusActive, api.StatusShutoff, true, 0},
		{api.StatusShutoff, api.StatusShutoff, false, 0}, {api.StatusError, api.StatusActive, false, 0}, {"", api.StatusShutoff, false, 1},
	} {
		d := fake.New(fake.Options{})
		b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
		e := b.entryOf(b.hosts["h"], "h", "a")
		e.have, e.lapsed, e.listed = c.have, c.lapsed, true
		ended, strange := b.applyStates(d, 0, []driver.State{{Host: "h", Instance: "a", Status: c.seen, Fault: "f", Runs: 3, Volumes: []api.InstanceID{"v"}}})
		assert.Len(t, ended, c.ended, "%+v", c)
		assert.Empty(t, strange)
		assert.Equal(t, []any{c.seen, "f", uint64(3), []api.InstanceID{"v"}}, []any{e.have, e.fault, e.runs, e.attached})
	}
}

func newTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS13} }
