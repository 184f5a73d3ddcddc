package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The groups of the commands in "berth help".
const (
	groupWork    = "work"
	groupOperate = "operate"
	groupProcess = "process"
	groupOther   = "other"
)

// rootCommand returns the tree of all commands.
func rootCommand(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "berth",
		Short: "Place and reserve compute capacity across autonomous zones",
		Long: `Berth places and reserves compute capacity across autonomous zones. Ask once, at any
zone: you get and keep all of it or nothing, in whichever zones have room.`,
		Example: `  berth boot --flavor small --name web --count 400
  berth reservation list
  berth help settings`,
		Args:              cobra.ArbitraryArgs,
		RunE:              needVerb,
		SilenceErrors:     true, // ReportError prints them
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}, // ours has examples
	}
	root.SetIn(e.in)
	root.SetOut(e.out)
	root.SetErr(e.errOut)
	root.SetFlagErrorFunc(flagError)
	root.Version = e.version // for --version
	root.SetVersionTemplate("berth {{.Version}}\n")
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "Work:"},
		&cobra.Group{ID: groupOperate, Title: "Operate a zone:"},
		&cobra.Group{ID: groupProcess, Title: "Processes:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	addGroup(root, groupWork, workCommands(e))
	addGroup(root, groupOperate, operateCommands(e))
	addGroup(root, groupProcess, withAgents(e, e.processes))
	addGroup(root, groupOther, otherCommands(e))
	root.AddCommand(helpTopics()...)
	root.SetHelpCommand(helpCommand())
	return root
}

func addGroup(root *cobra.Command, id string, cmds []*cobra.Command) {
	for _, c := range cmds {
		c.GroupID = id
		root.AddCommand(c)
	}
}

// nounCommand returns a command that has only verbs.
func nounCommand(name, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:     name,
		Short:   short,
		Example: firstLine(verbs[0].Example),
		Args:    cobra.ArbitraryArgs,
		RunE:    needVerb,
	}
	c.AddCommand(verbs...)
	return c
}

// GroupVerbs returns a command that has only verbs, at least one.
func GroupVerbs(name, short string, verbs ...*cobra.Command) *cobra.Command {
	return nounCommand(name, short, verbs...)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// flagError returns the error for an invalid flag. On a command that has only verbs, an
// unknown verb is reported instead.
func flagError(c *cobra.Command, err error) error {
	if c.HasSubCommands() && c.Flags().NArg() > 0 {
		return needVerb(c, c.Flags().Args())
	}
	sentence, _, _ := strings.Cut(err.Error(), ": strconv.") // without the details of Go's parser
	return usageError(c, "%s", sentence)
}

// suggestDistance is the number of letters in which a mistyped verb may differ from the
// one suggested for it.
const suggestDistance = 2

// needVerb runs a command that needs a verb: it shows help for the root alone, and
// returns a usage error otherwise.
func needVerb(c *cobra.Command, args []string) error {
	if len(args) == 0 && !c.HasParent() {
		return c.Help()
	}
	if len(args) == 0 {
		return usageError(c, "%q needs one of: %s", c.CommandPath(), strings.Join(verbsOf(c), ", "))
	}
	c.SuggestionsMinimumDistance = suggestDistance
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return usageError(c, "%q has no command %q; did you mean %s?", c.CommandPath(), args[0], strings.Join(near, " or "))
	}
	return usageError(c, "%q has no command %q", c.CommandPath(), args[0])
}

func verbsOf(c *cobra.Command) []string {
	var names []string
	for _, v := range c.Commands() {
		if v.IsAvailableCommand() {
			names = append(names, v.Name())
		}
	}
	slices.Sort(names)
	return names
}

// exactArgs returns a check for exactly the named arguments.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError(c, "%q needs %s", c.CommandPath(), strings.Join(names[len(args):], " and "))
		case len(args) > len(names):
			return usageError(c, "%q takes no argument %q", c.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// TakeNothing checks that there are no arguments.
func TakeNothing(c *cobra.Command, args []string) error { return exactArgs()(c, args) }

// RequireFlags makes flags required.
func RequireFlags(c *cobra.Command, names ...string) {
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		for _, n := range names {
			if !c.Flags().Changed(n) {
				return usageError(c, "--%s is required", n)
			}
		}
		return nil
	}
}

// atMost returns a check for at most n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return usageError(c, "%q takes no argument %q", c.CommandPath(), args[n])
		}
		return nil
	}
}

// optionalArg returns the first argument, "" if there is none.
func optionalArg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// helpTopics returns the help pages that belong to no command.
func helpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesHelp()},
		{Use: "settings", Short: "How to set the address and the token", Long: settingsHelp},
	}
}

// mustFlag panics if cobra rejects a flag option. The names are constants of this
// package, so that every test would find a wrong one.
func mustFlag(err error) {
	if err != nil {
		panic(fmt.Sprintf("berth: building the commands: %v", err))
	}
}
