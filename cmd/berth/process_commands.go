package main

import "github.com/spf13/cobra"

// processCommands returns the commands that run a process of a zone, or prepare
// one.
func processCommands(_ *env) []*cobra.Command { return nil }
