package cli

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/rest"
)

// leaseCheckFlags are the flags of the external service that checks the leases of a zone.
type leaseCheckFlags struct {
	url, tokenFile string
	timeout        time.Duration
	failOpen       bool
	none           bool
}

const (
	flagCheckURL     = "lease-check-url"
	flagCheckToken   = "lease-check-token-file" //nolint:gosec // the name of a flag
	flagCheckTimeout = "lease-check-timeout"
	flagCheckOpen    = "lease-check-fail-open"
	flagCheckNone    = "no-lease-check"
)

func (l *leaseCheckFlags) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&l.url, flagCheckURL, "", "`URL` of an external service that may refuse leases; its calls are below it")
	f.StringVar(&l.tokenFile, flagCheckToken, "", "`FILE` with the token that the service is shown, - for the standard input")
	f.DurationVar(&l.timeout, flagCheckTimeout, 0, "how long one call of the service may take, 1s to 30s (default 5s)")
	f.BoolVar(&l.failOpen, flagCheckOpen, false, "allow what the service does not answer; =false refuses it again")
	f.BoolVar(&l.none, flagCheckNone, false, "ask no service any more")
	for _, name := range []string{flagCheckURL, flagCheckToken, flagCheckTimeout, flagCheckOpen} {
		c.MarkFlagsMutuallyExclusive(flagCheckNone, name)
	}
}

// changed reports whether any of the flags is given.
func (*leaseCheckFlags) changed(c *cobra.Command) bool {
	return anyChanged(c, flagCheckURL, flagCheckToken, flagCheckTimeout, flagCheckOpen, flagCheckNone)
}

// apply changes in a rule what is given.
func (l *leaseCheckFlags) apply(e *env, c *cobra.Command, to *rest.LeaseRule) error {
	if !l.changed(c) {
		return nil
	}
	if l.none {
		to.Check = nil
		return nil
	}
	if to.Check == nil {
		if l.url == "" {
			return usageError(c, "the zone asks no service: --%s is needed", flagCheckURL)
		}
		to.Check = &rest.LeaseCheck{}
	}
	to.Check.URL = cmp.Or(l.url, to.Check.URL)
	if l.timeout != 0 {
		to.Check.Timeout = rest.Duration(l.timeout)
	}
	if c.Flags().Changed(flagCheckOpen) {
		to.Check.FailOpen = l.failOpen
	}
	if l.tokenFile == "" {
		return nil
	}
	token, err := e.readSecret(l.tokenFile)
	to.Check.Token = &token
	return err
}

// addLeaseCheck adds the rows of a service to those of a configuration.
func addLeaseCheck(t *table, c *rest.LeaseCheck) {
	if c == nil {
		t.addRow("LEASE CHECK", "none")
		return
	}
	t.addRow("LEASE CHECK", c.URL)
	t.addRow("LEASE CHECK TOKEN", map[bool]string{true: "set", false: "none"}[c.HasToken])
	t.addRow("LEASE CHECK TIMEOUT", time.Duration(cmp.Or(c.Timeout, rest.Duration(api.LeaseCheckTimeoutDefault))))
	t.addRow("LEASE CHECK WITHOUT ANSWER", map[bool]string{true: "allowed", false: "refused"}[c.FailOpen])
}

// listFlags are the two flags of a list: one gives it, a value each, and one empties it.
type listFlags struct {
	give, empty string // names
	values      []string
}

func (l *listFlags) addFlags(c *cobra.Command, give, giveUsage, empty, emptyUsage string) {
	l.give, l.empty = give, empty
	c.Flags().StringArrayVar(&l.values, give, nil, giveUsage+", replaces the present ones; may be repeated")
	c.Flags().Bool(empty, false, emptyUsage)
	c.MarkFlagsMutuallyExclusive(give, empty)
}

// changed reports whether any of the flags is given.
func (l *listFlags) changed(c *cobra.Command) bool { return anyChanged(c, l.give, l.empty) }

// apply changes a list if any of the flags is given.
func (l *listFlags) apply(c *cobra.Command, to *[]string) {
	if l.changed(c) {
		*to = l.values
	}
}

// addNetworks adds the row of the networks to those of a configuration.
func addNetworks(t *table, networks []string) {
	t.addRow("WEBHOOK NETWORKS", cmp.Or(strings.Join(networks, ", "), "public addresses only"))
}

// anyChanged reports whether any of some flags is given.
func anyChanged(c *cobra.Command, names ...string) bool {
	for _, name := range names {
		if c.Flags().Changed(name) {
			return true
		}
	}
	return false
}
