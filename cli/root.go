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
		Long: `Berth places and reserves compute capacity across autonomous zones. Ask once, at
any zone: what you get is kept, all of it or none of it, whichever zone it lands in.`,
		Example: `  berth boot --flavor small --name web --count 400
  berth reservation list
  berth help settings`,
		Args:              cobra.ArbitraryArgs,
		RunE:              needVerb,
		SilenceErrors:     true, // report prints them
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}, // ours has examples
	}
	root.SetIn(e.in)
	root.SetOut(e.out)
	root.SetErr(e.errOut)
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "Work:"},
		&cobra.Group{ID: groupOperate, Title: "Operate a zone:"},
		&cobra.Group{ID: groupProcess, Title: "Processes:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	addGroup(root, groupWork, workCommands(e))
	addGroup(root, groupOperate, operateCommands(e))
	addGroup(root, groupProcess, e.processes)
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

// nounCommand returns a command that only has verbs.
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

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// flagError returns the error of a flag that cannot be read. At a command that
// only has verbs, a verb that it does not have is the better thing to tell.
func flagError(c *cobra.Command, err error) error {
	if c.HasSubCommands() && c.Flags().NArg() > 0 {
		return needVerb(c, c.Flags().Args())
	}
	sentence, _, _ := strings.Cut(err.Error(), ": strconv.") // how Go reads numbers helps nobody
	return usageError(c, "%s", sentence)
}

// suggestDistance is how many letters may differ between a verb and what was
// typed for it to be suggested.
const suggestDistance = 2

// needVerb is what a command does that cannot do anything by itself: help when
// it stands alone at the root, a usage error otherwise.
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

// exactArgs returns a check that a command was given exactly the named arguments.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError(c, "%q needs %s", c.CommandPath(), strings.Join(names[len(args):], " and "))
		case len(args) > len(names):
			return usageError(c, "%q does not know what to do with %q", c.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// TakeNothing checks that a command was given no arguments.
func TakeNothing(c *cobra.Command, args []string) error { return exactArgs()(c, args) }

// RequireFlags makes flags required.
func RequireFlags(c *cobra.Command, names ...string) {
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		for _, n := range names {
			if !c.Flags().Changed(n) {
				return usageError(c, "--%s is needed", n)
			}
		}
		return nil
	}
}

// atMost returns a check that a command was given at most n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return usageError(c, "%q does not know what to do with %q", c.CommandPath(), args[n])
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

// helpTopics returns the pages of help that belong to no command.
func helpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesHelp()},
		{Use: "settings", Short: "Where the address and the token come from", Long: settingsHelp},
	}
}

// mustFlag is cobra's setter of flag options for names that are written in this
// package; that the name is wrong is a bug that every test would find.
func mustFlag(err error) {
	if err != nil {
		panic(fmt.Sprintf("berth: building the commands: %v", err))
	}
}
