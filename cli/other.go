package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func versionCommand(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: `Print the version of this program, and the date of the commit that it was built from if
the build recorded one. The version of a zone is in berth zone info.`,
		Example: "  berth version\n  berth version -o json",
		Args:    exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			if err := e.checkFormat(); err != nil {
				return err
			}
			v := versionOf(e.version, nil)
			if b, ok := debug.ReadBuildInfo(); ok {
				v = versionOf(e.version, b.Settings)
			}
			body, err := json.Marshal(v)
			if err != nil {
				return fmt.Errorf("printing the version: %w", err)
			}
			return e.printAnswer(body, func() []table {
				return []table{{rows: [][]string{{v.line()}}}}
			})
		},
	}
	c.Flags().StringVarP(&e.format, "output", "o", formatTable, "output format: table, json or yaml")
	return c
}

// programVersion is the answer of berth version.
type programVersion struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`      // absent if the build did not record it
	Date     string `json:"commit_date,omitempty"` // of the commit, as RFC 3339 in UTC
	Modified bool   `json:"modified,omitempty"`    // the files differed from those of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// versionOf returns what is known of a program from its version and the settings of its build.
func versionOf(version string, settings []debug.BuildSetting) programVersion {
	v := programVersion{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Date = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// line returns v as one line: "berth v1.2.3 of 2030-01-31T12:00:00Z (go1.26, linux/amd64)".
func (v programVersion) line() string {
	date := ""
	if v.Date != "" {
		date = " of " + v.Date
		if v.Modified {
			date += ", modified"
		}
	}
	return "berth " + v.Version + date + " (" + v.Go + ", " + v.Platform + ")"
}

// helpCommand is cobra's, except that an unknown topic is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND...]",
		Short:   "Show the help of a command, or a page of help",
		Example: "  berth help boot\n  berth help exit-codes",
		GroupID: groupOther,
		ValidArgsFunction: func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			about, _, err := c.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var found []string
			for _, sub := range about.Commands() {
				if !sub.Hidden && strings.HasPrefix(sub.Name(), start) {
					found = append(found, sub.Name()+"\t"+sub.Short)
				}
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError(c.Root(), "there is no help on %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

func completionCommand(e *env) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of a shell",
		Long: `Print a script that makes a shell complete commands, flags and names, which it reads
from the zone. SHELL is bash, zsh, fish or powershell. Bash needs the package
bash-completion for it.`,
		Example: `  source <(berth completion bash)
  berth completion zsh > "${fpath[1]}/_berth"`,
		Args:      exactArgs("a SHELL"),
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(e.out, true)
			case "zsh":
				return c.Root().GenZshCompletion(e.out)
			case "fish":
				return c.Root().GenFishCompletion(e.out, true)
			case "powershell":
				return c.Root().GenPowerShellCompletionWithDesc(e.out)
			}
			return usageError(c, "there is no completion for %q; use one of %v", args[0], shells)
		},
	}
}
