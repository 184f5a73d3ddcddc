package cli

import (
	"bufio"
	"context"
	"strings"

	"github.com/spf13/cobra"
)

// sure is the flag of commands that destroy something.
type sure struct{ yes bool }

func (s *sure) addFlag(c *cobra.Command) {
	c.Flags().BoolVarP(&s.yes, "yes", "y", false, "do not ask for confirmation")
}

// confirmAction asks for confirmation of what, such as `delete flavor "small"`. Without a
// terminal --yes is required.
func (e *env) confirmAction(ctx context.Context, s sure, what string) error {
	if s.yes {
		return nil
	}
	if !e.inTTY || !e.errTTY {
		return exitError(exitUsage, "repeat it with --yes", "this would %s, which needs confirmation on a terminal", what)
	}
	printText(e.errOut, "This will %s. Continue? [y/N] ", stripControls(what))
	answer := make(chan string, 1)
	go func() { // a read of a terminal cannot be interrupted; when ctx ends, so does the process
		line, _ := bufio.NewReader(e.in).ReadString('\n') // no answer is a no
		answer <- line
	}()
	select {
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return exitError(exitFailed, "", "declined; nothing was done")
	case <-ctx.Done():
		return ctx.Err()
	}
}
