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
)

// adminAddrDefault is where a node has its admin listener, unless its operator gives another address.
const adminAddrDefault = "127.0.0.1:7604"

// adminTimeout bounds a call of an admin listener.
const adminTimeout = 10 * time.Second

func operatorLogLevel(e *env) *cobra.Command {
	var admin string
	c := &cobra.Command{
		Use:   "log-level [LEVEL]",
		Short: "Show or change the level of the log of a node of this machine",
		Long: `Show or change the lowest level that a node logs: debug, info, warn or error. It is a node of this
machine, by its admin listener, which takes changes from this machine alone and warns of each in
the log. The level holds until the node ends, or reads its configuration file again.`,
		Example: "  berth operator log-level\n  berth operator log-level debug\n  berth operator log-level info --admin-addr 127.0.0.1:7614",
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
			level, err := callLogLevel(c.Context(), admin, optionalArg(args))
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
	c.Flags().StringVar(&admin, "admin-addr", adminAddrDefault, "`ADDR` of the admin listener of the node")
	return c
}

// callLogLevel shows the level of the log of the process with an admin listener, or changes it to one that is not "".
func callLogLevel(ctx context.Context, addr, to string) (level rest.LogLevel, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	method, body := http.MethodGet, []byte(nil)
	if to != "" {
		method = http.MethodPut
		if body, err = json.Marshal(rest.LogLevel{Level: to}); err != nil {
			return level, fmt.Errorf("calling the admin listener: %w", err)
		}
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://"+addr+"/log-level", bytes.NewReader(body))
	if err != nil {
		return level, api.Errorf(api.CodeInvalid, "--admin-addr must be host:port, not %q", addr)
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return level, exitError(1, "run it on the machine of the node, with its --admin-addr", "no answer from the admin listener: %w", err)
	}
	defer func() { _ = a.Body.Close() }() // it was read
	text, err := io.ReadAll(io.LimitReader(a.Body, api.BodyMaxBytes))
	if err != nil {
		return level, fmt.Errorf("reading the answer of the admin listener: %w", err)
	}
	if a.StatusCode != http.StatusOK {
		var refusal api.ErrorBody
		if json.Unmarshal(text, &refusal) == nil && refusal.Error.Message != "" {
			return level, api.Errorf(refusal.Error.Code, "%s", refusal.Error.Message)
		}
		return level, api.Errorf(api.CodeNotFound, "the answer of %s was %s: is it the admin listener of a node that has this call? %s", addr, a.Status, strings.TrimSpace(string(text[:min(len(text), 100)])))
	}
	if err := json.Unmarshal(text, &level); err != nil {
		return level, fmt.Errorf("reading the answer of the admin listener: %w", err)
	}
	return level, nil
}
