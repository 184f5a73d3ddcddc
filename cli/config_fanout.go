package cli

import (
	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/rest"
)

// fanoutFlags are the flags that change which children a zone asks.
type fanoutFlags struct {
	mode  string
	slack int
}

const (
	flagFanout      = "fanout"
	flagFanoutSlack = "fanout-slack"
)

// fanoutModes are the modes, for completion.
var fanoutModes = []string{string(api.FanoutLean), string(api.FanoutAll)}

func (r *fanoutFlags) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&r.mode, flagFanout, "", "which child zones are asked for slots: lean, all")
	f.IntVar(&r.slack, flagFanoutSlack, 0, "with lean, how many times what is needed the asked zones must have room for, 1 to 64; 0 for the default")
	mustFlag(c.RegisterFlagCompletionFunc(flagFanout, cobra.FixedCompletions(fanoutModes, cobra.ShellCompDirectiveNoFileComp)))
}

// changed reports whether any of the flags is given.
func (*fanoutFlags) changed(c *cobra.Command) bool { return anyChanged(c, flagFanout, flagFanoutSlack) }

// apply changes in a rule what is given.
func (r *fanoutFlags) apply(c *cobra.Command, to *rest.FanoutRule) {
	if r.mode != "" {
		to.Mode = api.FanoutMode(r.mode)
	}
	if c.Flags().Changed(flagFanoutSlack) {
		to.Slack = r.slack
	}
}
