package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/agent"
	"berth/api"
	"berth/cli"
	"berth/node"
)

// processKind is a kind of process with a configuration file.
type processKind struct {
	name    string
	known   settings
	command func(e *env) *cobra.Command
}

func processKinds() []processKind {
	return []processKind{{"node", nodeSettings, (*env).nodeCommand}, {"agent", agentSettings, (*env).agentCommand}}
}

// kindOf returns the kind that --agent chooses.
func kindOf(isAgent bool) processKind {
	if isAgent {
		return processKinds()[1]
	}
	return processKinds()[0]
}

// configCommand returns the verbs of configuration files.
func (e *env) configCommand() *cobra.Command {
	c := cli.GroupVerbs("config", "Check the configuration file of a process, or print one with all defaults", e.configCheck(), e.configShow())
	c.Long = `Check the configuration file of "berth node" or "berth agent", or print one with all defaults.
The settings that all nodes of a zone share are in "berth operator config".`
	c.Example = "  berth config check /etc/berth/node.yaml"
	return c
}

// checkedFile is what berth config check prints as JSON.
type checkedFile struct {
	File   string    `json:"file"`
	Kind   string    `json:"kind"`
	OK     bool      `json:"ok"`
	Errors []mistake `json:"errors"`
}

func (e *env) configCheck() *cobra.Command {
	var (
		isAgent bool
		output  string
	)
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file, with the files of secrets that it names",
		Long: `Check the configuration file of a node, or of an agent with --agent; - is the standard input. Each
mistake is printed with its line and its key, and the exit code is 2 if there is one. Files of
secrets that it names are read, so run it as the user that runs the process.`,
		Example: "  berth config check /etc/berth/node.yaml\n  berth config check --agent /etc/berth/agent.yaml -o json",
		Args:    takeFile,
		RunE: cli.RunLocally(func(_ *cobra.Command, args []string) error {
			if output != "table" && output != "json" {
				return api.Errorf(api.CodeInvalid, "--output must be table or json, not %q", output)
			}
			k := kindOf(isAgent)
			err := e.checkFile(args[0], k)
			bad, ok := errors.AsType[*mistakes](err)
			if err != nil && !ok {
				return err
			}
			if output == "table" {
				if err == nil {
					e.printLine("ok")
				}
				return refuseFile(err)
			}
			out := checkedFile{File: args[0], Kind: k.name, OK: err == nil, Errors: []mistake{}}
			if bad != nil {
				out.Errors = bad.all
			}
			b, failed := json.MarshalIndent(out, "", "  ")
			if failed != nil {
				return fmt.Errorf("printing the errors: %w", failed)
			}
			e.printLine("%s", b)
			return refuseFile(err)
		}),
	}
	c.Flags().BoolVar(&isAgent, "agent", false, "it is the file of an agent")
	c.Flags().StringVarP(&output, "output", "o", "table", "output format: table or json")
	return c
}

// takeFile checks that there is one argument.
func takeFile(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return api.Errorf(api.CodeInvalid, "%q needs a FILE", c.CommandPath())
	}
	return cli.TakeNothing(c, args[1:])
}

// checkFile checks a file as a process of a kind would that starts with nothing else.
func (e *env) checkFile(path string, k processKind) error {
	c := k.command(e)
	file, err := readSettings(e.in, path, c, k.known)
	if err != nil {
		return err
	}
	if _, err = file.apply(c); err != nil {
		return err
	}
	if err = checkWhole(c, k); err != nil {
		return &mistakes{path, []mistake{{Message: plainMessage(err)}}}
	}
	return nil
}

// checkWhole checks settings together.
func checkWhole(c *cobra.Command, k processKind) error {
	f := c.Flags()
	if join, _ := f.GetString("join-file"); join != "" {
		if _, err := readSecret(join); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is used once
			return err
		}
	}
	if k.name == "node" {
		if _, err := apiCertOf(c).Load(); err != nil {
			return err
		}
		return checkPlaces(c)
	}
	attributes, _ := f.GetStringArray("attribute")
	_, err := agent.ParseAttributes(slices.DeleteFunc(attributes, func(a string) bool { return a == "" }))
	return err
}

// apiCertOf returns the files of the certificate of the public API.
func apiCertOf(c *cobra.Command) node.APICert {
	return node.APICert{Cert: flagText(c, "api-cert"), Key: flagText(c, "api-key")}
}

func (e *env) configShow() *cobra.Command {
	var isAgent bool
	c := &cobra.Command{
		Use:     "show",
		Short:   "Print a configuration file with all settings and their defaults, as comments",
		Example: "  berth config show > node.yaml\n  berth config show --agent > agent.yaml",
		Args:    cli.TakeNothing,
		RunE: cli.RunLocally(func(*cobra.Command, []string) error {
			e.printLine("%s", strings.TrimSuffix(e.showDefaults(kindOf(isAgent)), "\n"))
			return nil
		}),
	}
	c.Flags().BoolVar(&isAgent, "agent", false, "the file of an agent")
	return c
}

// showDefaults returns a file of a kind in which all settings are comments.
func (e *env) showDefaults(k processKind) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Settings of berth %s. Take away the # of those that you change.\n", k.name)
	for _, s := range e.listSettings(k) {
		fmt.Fprintf(&b, "\n# %s\n# Allowed: %s\n#%s: %s\n", s.usage, s.allowed, s.name, cmp.Or(s.byDefault, s.example))
	}
	return b.String()
}

// shownSetting is a setting with what its flag says.
type shownSetting struct {
	setting
	name, usage, kind  string
	byDefault, example string // as in YAML
}

// listSettings returns the settings of a kind by name.
func (e *env) listSettings(k processKind) []shownSetting {
	f := k.command(e).Flags()
	var out []shownSetting
	for _, name := range slices.Sorted(maps.Keys(k.known)) {
		flag := f.Lookup(name)
		usage := strings.ReplaceAll(flag.Usage, "`", "")
		s := shownSetting{setting: k.known[name], name: name, usage: usage, kind: flag.Value.Type(), byDefault: flag.DefValue, example: `""`}
		switch s.kind {
		case "stringArray", "stringSlice":
			s.byDefault, s.example = "", "[]"
		case "stringToInt64":
			s.byDefault, s.example = "", "{}"
		}
		out = append(out, s)
	}
	return out
}

// settingsReference returns docs/config.md, which is generated from the flags and what is known of them.
func (e *env) settingsReference() string {
	var b strings.Builder
	b.WriteString(referenceIntro)
	for _, k := range processKinds() {
		fmt.Fprintf(&b, "\n## Of %s\n\n| Key | Type | Default | Allowed | What it is | Kept | Reload |\n| --- | --- | --- | --- | --- | --- | --- |\n", map[string]string{"node": "a node", "agent": "an agent"}[k.name])
		for _, s := range e.listSettings(k) {
			byDefault := ""
			if s.byDefault != "" {
				byDefault = "`" + s.byDefault + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", s.name, typeNames[s.kind], byDefault, s.allowed, s.usage, yes(s.kept), yes(s.reload))
		}
	}
	return b.String()
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

const referenceIntro = `# Configuration files

Generated by the test of cmd/berth; run it with -update after a change.

` + "`berth node --config FILE` and `berth agent --config FILE`" + ` read settings from a file in YAML. Its keys are the names of the flags without
dashes in front. There is one way to write each value: a text, a whole number, true or false, a list of texts, or an object. Times are texts such as ` + "`24h`" + `.

` + "```yaml" + `
dir: /var/lib/berth
host: 10.0.0.5
api-name: [berth.west.example]
backup-dir: /srv/backups
rate: {writes: 100}
` + "```" + `

Unknown and repeated keys, wrong types and values out of range are refused, with file, line, key and what is allowed, and the process does not start.
A file that others than its owner may change is refused. It has no secrets itself: it names files with them, which others may not read.

**What wins.** A flag of the command line beats the file, and the log says which did. The file beats what the process remembers of earlier starts, just as
a flag does. A setting in neither keeps what is remembered, if it is one of those that are kept (in ` + "`node.json` or `agent.json`" + `), and has its default otherwise:
so taking the line of a kept setting out of the file changes nothing.

**Check it** with ` + "`berth config check FILE`, for an agent with `--agent`" + `. ` + "`berth config show`" + ` prints a file with all settings as comments.

**Reload.** On SIGHUP a process reads its file again. It takes over the settings that are marked below, logs what has changed, and warns of those that need a
restart. The files of certificates that it names are read again, too. A file with a mistake changes nothing, and is an error in the log.
`
