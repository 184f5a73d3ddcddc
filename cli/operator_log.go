package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/raftstore"
	"berth/raftstore/command"
)

// raftFolder is where a node keeps its log, in its data directory.
const raftFolder = "raft"

// logRange chooses entries of a log.
type logRange struct {
	from, to uint64
	limit    int
}

func operatorLog(e *env) *cobra.Command {
	var (
		dir string
		key string
		r   logRange
	)
	c := &cobra.Command{
		Use:   "log --dir DIR",
		Short: "Print the log and the snapshots of a stopped node",
		Long: `Verify the data directory of a stopped node, and print its snapshots and the entries
of its log. Nothing is changed. Damage is an error that names the file and the entry.
Keys, certificates and the hashes of tokens are not printed.

With -o json, each snapshot and each entry is one line; entries have their commands
with all fields, and byte fields only their length.`,
		Example: `  berth operator log --dir /var/lib/berth
  berth operator log --dir /var/lib/berth --from 4100 --limit 20
  berth operator log --dir /var/lib/berth -o json`,
		Args: exactArgs(),
		RunE: RunLocally(func(c *cobra.Command, _ []string) (err error) {
			if err = refuseCallerFlags(c); err != nil {
				return err
			}
			if e.format != formatTable && e.format != formatJSON {
				return exitError(exitUsage, "use table or json", "the log cannot be printed as %q", e.format)
			}
			if r.limit < 0 || r.to != 0 && r.to < r.from {
				return exitError(exitUsage, "", "--limit must not be negative, and --to not below --from")
			}
			diskKey, err := ReadDiskKey(key)
			if err != nil {
				return err
			}
			d, err := raftstore.OpenDisk(filepath.Join(dir, raftFolder), diskKey)
			switch {
			case errors.Is(err, syscall.EWOULDBLOCK):
				return withHint(err, "stop the node first, or use the other verbs to see the state of a running zone: berth help")
			case api.CodeOf(err) == api.CodeNotFound:
				return withHint(err, "give the data directory of a node: the --dir of berth init or berth node")
			case err != nil:
				return err
			}
			defer func() { err = errors.Join(err, d.Close()) }()
			if e.format == formatJSON {
				return e.logLines(d, r)
			}
			return e.logTables(d, r)
		}),
	}
	hideCallerFlags(c)
	f := c.Flags()
	f.StringVar(&dir, "dir", "", "data directory of the node")
	f.StringVar(&key, "disk-key-file", "", "file with the disk key of the node, if it has one")
	f.Uint64Var(&r.from, "from", 0, "first index to print")
	f.Uint64Var(&r.to, "to", 0, "last index to print (default: the last)")
	f.IntVar(&r.limit, "limit", 0, "most entries to print; 0 for all")
	RequireFlags(c, "dir")
	return c
}

// callerOnly are the flags that only verbs which call a zone take.
var callerOnly = []string{"addr", "context", "jq", "token", "token-file", "cacert", "linearizable"}

// hideCallerFlags leaves the flags of callers out of the help of c.
func hideCallerFlags(c *cobra.Command) {
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		for _, name := range callerOnly {
			mustFlag(c.InheritedFlags().MarkHidden(name))
		}
		c.Parent().HelpFunc()(c, args)
	})
}

// refuseCallerFlags returns an error if a flag of callers was given to c.
func refuseCallerFlags(c *cobra.Command) error {
	for _, name := range callerOnly {
		if c.Flags().Changed(name) {
			return usageError(c, "%q reads files and calls no zone: leave out --%s", c.CommandPath(), name)
		}
	}
	return nil
}

// eachEntry calls show with the chosen entries.
func (r logRange) eachEntry(d *raftstore.Disk, show func(raftstore.Entry) error) error {
	shown := 0
	for entry, err := range d.Entries() {
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		if entry.Index < r.from {
			continue
		}
		if r.to != 0 && entry.Index > r.to || r.limit != 0 && shown == r.limit {
			return nil
		}
		shown++
		if err := show(entry); err != nil {
			return err
		}
	}
	return nil
}

// aboutDisk prints the term, the vote and the range of entries on the disk, and a note if
// the first requested entry is beyond them.
func (e *env) aboutDisk(d *raftstore.Disk, r logRange) {
	first, last := d.Range()
	vote := "it has not voted"
	if term, candidate := d.Vote(); term > 0 {
		vote = fmt.Sprintf("last vote in term %d for %q", term, candidate)
	}
	entries := "no entries"
	if last > 0 {
		entries = fmt.Sprintf("entries %d to %d", first, last)
	}
	e.printNote("node %s: term %d, %s, %s", d.Node(), d.Term(), vote, entries)
	if r.from > last {
		e.printNote("there are no entries from %d on", r.from)
	}
}

func (e *env) logTables(d *raftstore.Disk, r logRange) error {
	snaps := table{title: "Snapshots", header: []string{"INDEX", "TERM", "BYTES", "MEMBERS"}}
	for _, s := range d.Snapshots() {
		snaps.addRow(s.Index, s.Term, s.Bytes, membersText(s.Members))
	}
	log := table{title: "Log", header: []string{"INDEX", "TERM", "KIND", "COMMANDS", "BYTES", "TIME"}}
	err := r.eachEntry(d, func(entry raftstore.Entry) error {
		what, at := membersText(entry.Members), ""
		if len(entry.Commands) > 0 {
			what, at = commandNames(entry.Commands), showInstant(entry.Commands[0].Time())
		}
		log.addRow(entry.Index, entry.Term, entry.Kind, what, entry.Bytes, at)
		return nil
	})
	e.aboutDisk(d, r)
	return errors.Join(e.printTables(snaps, log), err)
}

// commandNames returns the names of commands in order; repeated neighbours are counted.
func commandNames(cmds []command.Command) string {
	var parts []string
	for i := 0; i < len(cmds); {
		name, n := commandName(cmds[i]), 1
		for i+n < len(cmds) && commandName(cmds[i+n]) == name {
			n++
		}
		if i += n; n > 1 {
			name = fmt.Sprintf("%s x%d", name, n)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}

func commandName(c command.Command) string { return reflect.TypeOf(c).Name() }

func membersText(members []raftstore.Member) string {
	parts := make([]string, 0, len(members))
	for _, m := range members {
		s := string(m.ID) + "=" + m.Addr
		if !m.Voter {
			s += " (no vote)"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

// The lines of -o json.
type (
	snapshotLine struct {
		Snapshot string             `json:"snapshot"`
		Index    uint64             `json:"index"`
		Term     uint64             `json:"term"`
		Bytes    int64              `json:"bytes"`
		Members  []raftstore.Member `json:"members"`
	}
	entryLine struct {
		Index    uint64             `json:"index"`
		Term     uint64             `json:"term"`
		Kind     string             `json:"kind"`
		Bytes    int                `json:"bytes"`
		Sum      string             `json:"crc32c"`
		Members  []raftstore.Member `json:"members,omitempty"`
		Commands []commandLine      `json:"commands,omitempty"`
	}
	commandLine struct {
		Command string         `json:"command"`
		Fields  map[string]any `json:"fields"`
	}
)

func (e *env) logLines(d *raftstore.Disk, r logRange) error {
	e.aboutDisk(d, r)
	out := json.NewEncoder(e.out)
	out.SetEscapeHTML(false)
	for _, s := range d.Snapshots() {
		if err := out.Encode(snapshotLine{s.ID, s.Index, s.Term, s.Bytes, s.Members}); err != nil {
			return fmt.Errorf("writing the output: %w", err)
		}
	}
	return r.eachEntry(d, func(entry raftstore.Entry) error {
		line := entryLine{
			Index: entry.Index, Term: entry.Term, Kind: entry.Kind, Bytes: entry.Bytes,
			Sum: fmt.Sprintf("%08x", entry.Sum), Members: entry.Members,
		}
		for _, c := range entry.Commands {
			fields, _ := jsonValue(reflect.ValueOf(c)).(map[string]any) // a command is a struct
			line.Commands = append(line.Commands, commandLine{commandName(c), fields})
		}
		if err := out.Encode(line); err != nil {
			return fmt.Errorf("writing the output: %w", err)
		}
		return nil
	})
}

// jsonValue returns v as the JSON output may show it. Bytes are keys, hashes,
// certificates and sealed plans: only their length is shown.
func jsonValue(v reflect.Value) any {
	if m, ok := v.Interface().(json.Marshaler); ok {
		return m
	}
	switch v.Kind() { //nolint:exhaustive // all others are shown as they are
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return jsonValue(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return fmt.Sprintf("(%d bytes)", v.Len())
		}
		out := make([]any, v.Len())
		for i := range out {
			out[i] = jsonValue(v.Index(i))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[fmt.Sprint(k.Interface())] = jsonValue(v.MapIndex(k))
		}
		return out
	case reflect.Struct:
		return shownFields(v)
	default:
		return v.Interface()
	}
}

func shownFields(v reflect.Value) map[string]any {
	out := map[string]any{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case !f.IsExported():
		case f.Anonymous && f.Type == reflect.TypeFor[command.Stamp]():
			out["at"] = v.Field(i).Interface().(command.Stamp).At
		default:
			out[fieldName(f)] = jsonValue(v.Field(i))
		}
	}
	return out
}

// fieldName returns the name that a record gives its field for this output, or its own
// in the same style.
func fieldName(f reflect.StructField) string {
	if name := f.Tag.Get("log"); name != "" {
		return name
	}
	letters := []rune(f.Name)
	var out []rune
	for i, r := range letters {
		begins := i > 0 && unicode.IsUpper(r) && (unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if begins {
			out = append(out, '_')
		}
		out = append(out, unicode.ToLower(r))
	}
	return string(out)
}

var _ json.Marshaler = api.Instant(0) // so that an instant is printed as a time
