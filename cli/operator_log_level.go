package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/rest"
	"berth/internal/adminsock"
)

// adminTimeout bounds a call of the socket of a node.
const adminTimeout = 10 * time.Second

func operatorLogLevel(e *env) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "log-level [LEVEL]",
		Short: "Show or change the level of the log of a node of this machine",
		Long: `Show or change the lowest level that a node logs: debug, info, warn or error. It is a node of this
machine, by the socket admin.sock in its data directory, which only its user and root reach. Each change is a warning in
the log. The level holds until the node ends, or reads its configuration file again.`,
		Example: "  berth operator log-level\n  berth operator log-level debug\n  berth operator log-level info --dir /var/lib/berth-2",
		Args:    atMost(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return rest.LogLevels, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: RunLocally(func(c *cobra.Command, args []string) error {
			if err := e.checkFormat(); err != nil {
				return err
			}
			if len(args) > 0 {
				if _, err := (rest.LogLevel{Level: args[0]}).Parse(); err != nil {
					return err
				}
			}
			level, err := callLogLevel(c.Context(), dir, optionalArg(args))
			if err != nil {
				return err
			}
			body, err := json.Marshal(level)
			if err != nil {
				return fmt.Errorf("printing the level: %w", err)
			}
			return e.printAnswer(body, func() []table { return []table{{rows: [][]string{{level.Level}}}} })
		}),
	}
	c.Flags().StringVar(&dir, "dir", adminsock.DirDefault, "data directory of the node")
	return c
}

// callLogLevel shows the level of the log of the node with a data directory, or changes it to one that is not "".
func callLogLevel(ctx context.Context, dir, to string) (level rest.LogLevel, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	method, body := http.MethodGet, []byte(nil)
	if to != "" {
		method = http.MethodPut
		if body, err = json.Marshal(rest.LogLevel{Level: to}); err != nil {
			return level, fmt.Errorf("calling the node: %w", err)
		}
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://node/log-level", bytes.NewReader(body))
	if err != nil {
		return level, fmt.Errorf("calling the node: %w", err)
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := adminsock.Transport(dir).RoundTrip(q)
	if err != nil {
		return level, exitError(1, "run it on the machine of the node, as its user or root, with its --dir", "no answer from the node: %w", err)
	}
	defer func() { _ = a.Body.Close() }() // it was read
	text, err := io.ReadAll(io.LimitReader(a.Body, api.BodyMaxBytes))
	if err != nil {
		return level, fmt.Errorf("reading the answer of the node: %w", err)
	}
	if a.StatusCode != http.StatusOK {
		var refusal api.ErrorBody
		if json.Unmarshal(text, &refusal) == nil && refusal.Error.Message != "" {
			return level, api.Errorf(refusal.Error.Code, "%s", refusal.Error.Message)
		}
		return level, api.Errorf(api.CodeNotFound, "the answer of %s was %s: is it the data directory of a node that has this call? %s", dir, a.Status, strings.TrimSpace(string(text[:min(len(text), 100)])))
	}
	if err := json.Unmarshal(text, &level); err != nil {
		return level, fmt.Errorf("reading the answer of the node: %w", err)
	}
	return level, nil
}
