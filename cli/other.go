package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
)

func versionCommand(e *env) *cobra.Command {
	line := "berth " + e.version + " (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Long:    "Print the version of this program. The version of a zone is in berth zone info.",
		Example: "  berth version\n  berth version -o json",
		Args:    exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			if err := e.checkFormat(); err != nil {
				return err
			}
			body, err := json.Marshal(map[string]string{
				"version": e.version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			})
			if err != nil {
				return fmt.Errorf("printing the version: %w", err)
			}
			return e.printAnswer(body, func() []table {
				return []table{{rows: [][]string{{line}}}}
			})
		},
	}
	c.Flags().StringVarP(&e.format, "output", "o", formatTable, "output format: table, json or yaml")
	return c
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
