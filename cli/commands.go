package cli

import "github.com/spf13/cobra"

// workCommands returns the verbs of callers who run instances.
func workCommands(e *env) []*cobra.Command {
	return callerCommands(e, bootCommand(e), leaseCommand(e), reservationCommand(e), explainCommand(e), serverCommand(e), volumeCommand(e), serverGroupCommand(e),
		selectCommand(e), flavorCommand(e), azCommand(e), eventsCommand(e), webhookCommand(e), quotaCommand(e))
}

// operateCommands returns the verbs of operators.
func operateCommands(e *env) []*cobra.Command {
	return callerCommands(e, zoneCommand(e), bindingCommand(e), capacityCommand(e), hostCommand(e), aggregateCommand(e),
		providerCommand(e), resourceClassCommand(e), traitCommand(e), allocationCommand(e), candidatesCommand(e),
		schedulerCommand(e), operatorCommand(e), holdCommand(e), tokenCommand(e), roleCommand(e), joinTokenCommand(e), benchCommand(e))
}

// otherCommands returns the rest.
func otherCommands(e *env) []*cobra.Command {
	return []*cobra.Command{loginCommand(e), contextCommand(e), versionCommand(e), completionCommand(e)}
}
