package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"berth/api/client"
)

// zoneFlags are the flags of commands that save the settings of a zone.
type zoneFlags struct{ addr, tokenFile, caCert string }

func (z *zoneFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&z.addr, "addr", "", "address of a node of the zone, or several with commas: when one does not answer, the next is called (default "+addrDefault+")")
	f.StringVar(&z.tokenFile, "token-file", "", "file with the bearer token, - for standard input")
	f.StringVar(&z.caCert, "cacert", "", "file with the PEM certificate of the zone's CA; it is not copied")
}

// read returns the settings that the flags give, and checks them.
func (z *zoneFlags) read(e *env) (map[string]string, error) {
	s := map[string]string{"addr": cmp.Or(z.addr, addrDefault)}
	var err error
	if z.tokenFile != "" {
		if s["token"], err = e.readSecret(z.tokenFile); err != nil {
			return nil, err
		}
	}
	if z.caCert != "" {
		if s["cacert"], err = filepath.Abs(z.caCert); err != nil {
			return nil, err
		}
	}
	_, err = clientOf(s) // as each command would make one
	return s, err
}

// clientOf returns a client for the zone of some settings.
func clientOf(s map[string]string) (*client.Client, error) {
	cfg, err := configOf(s)
	if err != nil {
		return nil, err
	}
	return client.New(cfg)
}

func contextCommand(e *env) *cobra.Command {
	c := nounCommand("context", "Save the settings of several zones, and choose one", contextList(e), contextAdd(e), contextUse(e), contextRemove(e))
	c.Long = `Save the settings of several zones under names, and choose which one commands call.
The settings are in the file that "berth help settings" tells of.`
	c.Aliases = []string{"contexts"}
	return c
}

// savedContext is a context in berth context list.
type savedContext struct {
	Name   string `json:"name"`
	InUse  bool   `json:"in_use"`
	Addr   string `json:"addr"`
	CACert string `json:"cacert,omitempty"`
}

func contextList(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the contexts",
		Long:    "List the contexts. The one that commands use has a star; tokens are not shown.",
		Example: "  berth context list\n  berth context list -o json",
		Args:    exactArgs(),
		RunE: RunLocally(func(*cobra.Command, []string) error {
			if err := e.checkFormat(); err != nil {
				return err
			}
			f, err := e.readSettingsFile()
			if err != nil {
				return err
			}
			all := make([]savedContext, 0, len(f.contexts))
			for _, name := range slices.Sorted(maps.Keys(f.contexts)) {
				s := f.contexts[name]
				all = append(all, savedContext{name, name == cmp.Or(e.getenv(envContext), f.current), cmp.Or(s["addr"], addrDefault), s["cacert"]})
			}
			body, err := json.Marshal(map[string][]savedContext{"contexts": all})
			if err != nil {
				return fmt.Errorf("printing the contexts: %w", err)
			}
			return e.printList("contexts", body, func() []table {
				return tableOf("CONTEXT|IN USE|ADDR|CACERT", func(c savedContext) []any {
					return []any{c.Name, showStar(c.InUse), c.Addr, c.CACert}
				})(all)
			})
		}),
	}
	e.outputFlags(c)
	e.listFlags(c)
	return c
}

// showStar marks one of a list.
func showStar(marked bool) string {
	if marked {
		return "*"
	}
	return ""
}

func contextAdd(e *env) *cobra.Command {
	var z zoneFlags
	var replace bool
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Save the settings of a zone under a name",
		Long: `Save the settings of a zone under a name, without calling it. The first context is used from
then on. To call the zone first, see: berth login --help`,
		Example: "  berth context add west --addr https://10.0.0.5:7600,https://10.0.0.6:7600 --cacert west-ca.pem --token-file west.token",
		Args:    exactArgs("a NAME"),
		RunE: RunLocally(func(_ *cobra.Command, args []string) error {
			s, err := z.read(e)
			if err != nil {
				return err
			}
			f, err := e.readSettingsFile()
			if err != nil {
				return err
			}
			if _, known := f.contexts[args[0]]; known && !replace {
				return exitError(exitConflict, "add --replace, or use another name", "there is a context %q already", args[0])
			}
			return e.saveContext(f, args[0], s, len(f.contexts) == 0)
		}),
	}
	z.add(c)
	c.Flags().BoolVar(&replace, "replace", false, "replace the context of that name")
	return c
}

// saveContext writes a context into the file, and with use makes it the current one.
func (e *env) saveContext(f *settingsFile, name string, s map[string]string, use bool) error {
	if !contextName.MatchString(name) {
		return exitError(exitUsage, "", "the name of a context must be 1 to 64 characters of A-Z a-z 0-9 _ -, and begin with a letter or a digit, got %q", name)
	}
	if err := f.put(name, s); err != nil {
		return err
	}
	if use {
		f.use(name)
	}
	if err := f.write(); err != nil {
		return err
	}
	e.printNote("saved context %s in %s", name, f.path)
	return nil
}

func contextUse(e *env) *cobra.Command {
	return e.contextNames(&cobra.Command{
		Use:     "use NAME",
		Short:   "Choose the context that commands use",
		Long:    "Choose the context that commands use from now on. --context and BERTH_CONTEXT choose one for a command or a shell.",
		Example: "  berth context use west\n  berth server list --context east",
		Args:    exactArgs("a NAME"),
		RunE:    e.changeContext((*settingsFile).use),
	})
}

func contextRemove(e *env) *cobra.Command {
	return e.contextNames(&cobra.Command{
		Use:     "remove NAME",
		Short:   "Forget a context",
		Long:    "Forget a context, and the token in it. The token itself stays valid: see berth token delete.",
		Example: "  berth context remove west",
		Args:    exactArgs("a NAME"),
		RunE:    e.changeContext((*settingsFile).remove),
	})
}

// changeContext returns what changes the file for the context that is named, and writes it.
func (e *env) changeContext(change func(f *settingsFile, name string)) func(*cobra.Command, []string) error {
	return RunLocally(func(_ *cobra.Command, args []string) error {
		f, err := e.readSettingsFile()
		if err != nil {
			return err
		}
		if _, err = f.find(args[0]); err != nil {
			return err
		}
		change(f, args[0])
		return f.write()
	})
}

// contextNames completes the names of contexts as the argument of c.
func (e *env) contextNames(c *cobra.Command) *cobra.Command {
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return e.completeContext(nil, nil, "")
	}
	return c
}

// completeContext completes the name of a context.
func (e *env) completeContext(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	f, err := e.readSettingsFile()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(f.contexts)), cobra.ShellCompDirectiveNoFileComp
}

func loginCommand(e *env) *cobra.Command {
	var z zoneFlags
	c := &cobra.Command{
		Use:   "login [NAME]",
		Short: "Call a zone, save its settings, and use them from now on",
		Long: `Call a zone with an address, a certificate and a token, and save them as a context if the zone
takes them. Without a NAME the context has the name of the zone; one of that name is replaced.`,
		Example: "  berth login --addr https://10.0.0.5:7600,https://10.0.0.6:7600 --cacert west-ca.pem --token-file west.token\n  berth login lab --addr http://127.0.0.1:7600 --token-file -",
		Args:    atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := z.read(e)
			if err != nil {
				return err
			}
			f, err := e.readSettingsFile()
			if err != nil {
				return err
			}
			cl, err := clientOf(s)
			if err != nil {
				return err
			}
			defer cl.Close()
			e.calling = s["addr"]
			answered := e.noteWaiting()
			info, err := cl.ZoneInfo(cmd.Context())
			answered()
			if err != nil {
				return err
			}
			return e.saveContext(f, cmp.Or(optionalArg(args), info.Name), s, true)
		},
	}
	z.add(c)
	return c
}
