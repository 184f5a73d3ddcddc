package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/adminsock"
)

// Limits of a report of a node.
const (
	DebugPartMax = 64 << 20         // bytes of one file in it
	DebugCPUMin  = time.Second      // of --cpu
	DebugCPUMax  = 60 * time.Second // of --cpu

	debugWait = 30 * time.Second // for one file in it, beyond --cpu
	debugMode = 0o600
	debugDir  = "berth-debug/"
)

// debugPart is one file of a report. read returns its content.
type debugPart struct {
	name string
	wait time.Duration
	read func(ctx context.Context) ([]byte, error)
}

// debugFile says what became of one file of a report.
type debugFile struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
	Error string `json:"error,omitempty"` // why it is not there
}

// debugManifest is the first file of a report.
type debugManifest struct {
	Written api.Instant `json:"written"`
	Client  string      `json:"client_version"`
	Files   []debugFile `json:"files"`
}

type debugFlags struct {
	out, dir string
	cpu      time.Duration
}

func operatorDebug(e *env) *cobra.Command {
	var f debugFlags
	c := &cobra.Command{
		Use:   "debug --out FILE",
		Short: "Write what a report of a defect needs to a new file",
		Long: `Write what a report of a defect needs to FILE, a new tar.gz that you alone can read: of the node that is called, its
version and build, the members of its zone and their health, the state of its log, its links without addresses,
numbers and switches of the configuration, its metrics, what its goroutines do, and its heap.

It has no tokens, keys, hosts or projects, and no addresses of other zones; it has the names of the zone, its nodes
and its links. Look into it before you pass it on. What comes from the socket admin.sock in the data
directory of the node is had on its machine alone, as its user or root. What cannot be had is noted in manifest.json, and the rest is written.`,
		Example: `  berth operator debug --out report.tar.gz
  berth operator debug --out report.tar.gz --cpu 10s --dir /var/lib/berth-2`,
		Args: exactArgs(),
	}
	c.Flags().StringVar(&f.out, "out", "", "`FILE` to write, which must not exist yet")
	c.Flags().StringVar(&f.dir, "dir", adminsock.DirDefault, "data directory of the node")
	c.Flags().DurationVar(&f.cpu, "cpu", 0, "profile the processor for so long, 1s to 60s (default: not)")
	RequireFlags(c, "out")
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		return f.writeReport(ctx, e, c)
	})
	return c
}

// check checks the flags.
func (f *debugFlags) check() error {
	if f.cpu != 0 && (f.cpu < DebugCPUMin || f.cpu > DebugCPUMax || f.cpu%time.Second != 0) {
		return exitError(exitUsage, "", "--cpu must be whole seconds, %v to %v, not %v", DebugCPUMin, DebugCPUMax, f.cpu)
	}
	return nil
}

// writeReport gathers all files of the report, and then writes them.
func (f *debugFlags) writeReport(ctx context.Context, e *env, c *client.Client) error {
	if err := f.check(); err != nil {
		return err
	}
	out, err := os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, debugMode)
	if errors.Is(err, fs.ErrExist) {
		return exitError(exitConflict, "choose another name", "%s: %w", f.out, fs.ErrExist)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	manifest, err := gatherReport(ctx, e, f.parts(c), out)
	if closing := out.Close(); err == nil {
		err = closing
	}
	if err != nil {
		_ = os.Remove(f.out) // an incomplete file is no report
		return err
	}
	body, err := json.Marshal(map[string]any{"file": f.out, "manifest": manifest})
	if err != nil {
		return fmt.Errorf("printing what is in the report: %w", err)
	}
	return e.printAnswer(body, func() []table { return []table{manifest.table()} })
}

func (m *debugManifest) table() table {
	t := table{header: []string{"FILE", "BYTES", "MISSING BECAUSE"}}
	for _, f := range m.Files {
		t.addRow(f.Name, f.Bytes, f.Error)
	}
	return t
}

// gatherReport reads each part and writes those that there are.
func gatherReport(ctx context.Context, e *env, parts []debugPart, out io.Writer) (*debugManifest, error) {
	m := &debugManifest{Written: api.InstantOf(e.now()), Client: e.version}
	var bodies [][]byte
	var first error
	had := 0
	for _, p := range parts {
		e.printNote("reading %s ...", p.name)
		body, err := p.readBounded(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		file := debugFile{Name: p.name, Bytes: len(body)}
		if err != nil {
			file.Error, first = err.Error(), errors.Join(first, err)
		} else {
			had++
		}
		m.Files, bodies = append(m.Files, file), append(bodies, body)
	}
	if had == 0 {
		return nil, fmt.Errorf("nothing of the report could be had: %w", first)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the report: %w", err)
	}
	zip := gzip.NewWriter(out)
	tw := tar.NewWriter(zip)
	err = addFile(tw, "manifest.json", text, e.now())
	for i, p := range m.Files {
		if err == nil && p.Error == "" {
			err = addFile(tw, p.Name, bodies[i], e.now())
		}
	}
	if err = errors.Join(err, tw.Close(), zip.Close()); err != nil {
		return nil, fmt.Errorf("writing the report: %w", err)
	}
	return m, nil
}

func addFile(w *tar.Writer, name string, body []byte, at time.Time) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: debugDir + name, Mode: debugMode, Size: int64(len(body)), ModTime: at}); err != nil {
		return err
	}
	_, err := w.Write(body)
	return err
}

// readBounded reads the part within its time.
func (p *debugPart) readBounded(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, debugWait+p.wait)
	defer cancel()
	body, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	return body, nil
}

// parts returns the files of the report in their order.
func (f *debugFlags) parts(c *client.Client) []debugPart {
	from := func(name, path string) debugPart {
		return debugPart{name: name, read: func(ctx context.Context) ([]byte, error) { return f.getAdmin(ctx, path) }}
	}
	all := []debugPart{
		{name: "zone.json", read: asJSON(c.ZoneInfo, func(z rest.ZoneInfo) any { return map[string]string{"name": z.Name, "version": z.Version} })},
		{name: "members.json", read: asJSON(c.Members, debugMembers)},
		{name: "links.json", read: asJSON(func(ctx context.Context) ([]rest.Zone, error) {
			page, err := c.Zones(ctx, client.ListOptions{})
			return page.Items, err
		}, debugLinks)},
		{name: "config.json", read: asJSON(c.Config, debugConfigOf)},
		from("node.json", "/debug/node"),
		from("ready.json", "/readyz"),
		from("state.json", "/state"),
		from("metrics.txt", "/metrics"),
		from("goroutines.txt", "/debug/pprof/goroutine?debug=2"),
		from("heap.pprof", "/debug/pprof/heap"),
	}
	if f.cpu > 0 {
		p := from("cpu.pprof", fmt.Sprintf("/debug/pprof/profile?seconds=%d", f.cpu/time.Second))
		p.wait = f.cpu
		all = append(all, p)
	}
	return all
}

// asJSON returns a reader of what pick takes of an answer of the public API.
func asJSON[T any](call func(context.Context) (T, error), pick func(T) any) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		v, err := call(ctx)
		if err != nil {
			return nil, err
		}
		return json.MarshalIndent(pick(v), "", "  ")
	}
}

// getAdmin calls the socket of the node. A node that is not ready says so with an answer, too.
func (f *debugFlags) getAdmin(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("calling the node: %w", err)
	}
	res, err := adminsock.Transport(f.dir).RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("calling the node, whose data directory --dir names: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(res.Body, DebugPartMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("calling the node: %w", err)
	case len(body) > DebugPartMax:
		return nil, fmt.Errorf("%s has more than %d MiB", path, DebugPartMax>>20)
	case res.StatusCode != http.StatusOK && (path != "/readyz" || res.StatusCode != http.StatusServiceUnavailable):
		return nil, fmt.Errorf("the node answered %s with %s", path, res.Status)
	}
	return body, nil
}

// debugMembers picks what a report says of the nodes: no addresses.
func debugMembers(all []rest.Member) any {
	type member struct {
		ID      api.NodeID  `json:"id"`
		Version string      `json:"version"`
		Voter   bool        `json:"voter"`
		Leader  bool        `json:"leader"`
		Alive   string      `json:"alive,omitempty"`
		Joined  api.Instant `json:"joined,omitzero"`
		Expires api.Instant `json:"expires,omitzero"`
		State   int64       `json:"state_bytes"`
	}
	out := []member{}
	for _, m := range all {
		out = append(out, member{m.ID, m.Version, m.Voter, m.Leader, m.Alive, m.Joined, m.Expires, m.StateBytes})
	}
	return out
}

// debugLinks picks what a report says of the links: neither gateways nor what the zones report of themselves.
func debugLinks(all []rest.Zone) any {
	type link struct {
		Name        string        `json:"name"`
		Role        api.LinkRole  `json:"role"`
		State       api.LinkState `json:"state"`
		Health      string        `json:"health,omitempty"`
		Gateways    int           `json:"gateways"` // how many
		Reports     bool          `json:"reports"`  // a digest was received
		Maintenance bool          `json:"maintenance,omitempty"`
		Created     api.Instant   `json:"created"`
		Updated     api.Instant   `json:"updated"`
	}
	out := []link{}
	for i := range all {
		z := &all[i]
		out = append(out, link{z.Name, z.Role, z.State, z.Health, len(z.Endpoints), z.Digest != nil, z.Maintenance, z.Created, z.Updated})
	}
	return out
}

// debugConfig has every setting of the zone that a report says: numbers and switches, and of lists how long they are.
type debugConfig struct {
	PlanTTL          rest.Duration    `json:"plan_ttl"`
	HostGrace        rest.Duration    `json:"host_grace"`
	Tags             int              `json:"tags"`
	WebhookNetworks  int              `json:"webhook_networks"`
	PublicAttributes int              `json:"public_attributes"`
	HidesLayout      bool             `json:"hides_layout"`
	Fanout           rest.FanoutRule  `json:"fanout"`
	LeaseMax         rest.Duration    `json:"lease_max_duration"`
	LeaseLead        rest.Duration    `json:"lease_max_lead"`
	LeaseCleaning    rest.Duration    `json:"lease_cleaning_time"`
	LeaseExempt      int              `json:"lease_exempt_projects"`
	LeaseCheck       bool             `json:"lease_check"` // an external service is asked
	LeaseFailOpen    bool             `json:"lease_check_fail_open"`
	PreemptWays      []api.PreemptWay `json:"preempt_ways"`
	PreemptGrace     *rest.Duration   `json:"preempt_grace,omitempty"`
	PreemptClosed    bool             `json:"preempt_closed_to_parents"`
	BindingMode      string           `json:"binding_mode"`
}

// debugConfigOf picks what a report says of the configuration.
func debugConfigOf(z rest.ZoneConfig) any {
	c := debugConfig{
		PlanTTL: z.PlanTTL, HostGrace: z.HostGrace, Tags: len(z.Tags), WebhookNetworks: len(z.WebhookNetworks), PublicAttributes: len(z.PublicAttributes),
		HidesLayout: z.HidesLayout, Fanout: z.Fanout, LeaseMax: z.Leases.Longest, LeaseLead: z.Leases.Lead, LeaseCleaning: z.Leases.Cleaning,
		LeaseExempt: len(z.Leases.Exempt), LeaseCheck: z.Leases.Check != nil, PreemptWays: z.Preemptibles.Ways, PreemptGrace: z.Preemptibles.Grace,
		PreemptClosed: z.Preemptibles.Closed, BindingMode: string(z.Bindings.Mode),
	}
	if z.Leases.Check != nil {
		c.LeaseFailOpen = z.Leases.Check.FailOpen
	}
	return c
}
