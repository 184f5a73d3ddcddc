package main

import "github.com/spf13/cobra"

// workCommands returns the verbs of callers who want something to run.
func workCommands(e *env) []*cobra.Command { return callers(e) }

// operateCommands returns the verbs of operators.
func operateCommands(e *env) []*cobra.Command { return callers(e) }

// otherCommands returns the rest.
func otherCommands(_ *env) []*cobra.Command { return nil }
