package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/internal/durable"
)

// addrDefault is where a node on this machine listens.
const addrDefault = "https://127.0.0.1:7600"

const settingsHelp = `Commands that call a zone need its address, a token and, unless the system trusts its
certificate, the certificate of its CA. Each setting is taken from the first place
that has it, from left to right:

  flag           environment    key in the file   default
  --addr         BERTH_ADDR     addr              https://127.0.0.1:7600
  --token-file   BERTH_TOKEN    token             none
  --cacert       BERTH_CACERT   cacert            the system's certificates

In place of BERTH_TOKEN, BERTH_TOKEN_FILE names a file with the token, as --token-file does.

The file is $XDG_CONFIG_HOME/berth/config.yaml, or ~/.config/berth/config.yaml:

  addr: https://zone.example:7600
  token: berth_...
  cacert: /etc/berth/ca.pem

Several addresses of nodes of one zone stand behind each other with commas: when one does
not answer, the next is called.

Who works with several zones saves the settings of each as a context, with "berth login" or
"berth context add". In the file they are below the key contexts, and the key context names
the one in use:

  context: west
  contexts:
    west:
      addr: https://10.0.0.5:7600,https://10.0.0.6:7600
      token: berth_...
    east:
      addr: https://10.1.0.5:7600

BERTH_CONTEXT names another one, and what the environment has of the settings themselves goes
before it. With --context NAME, nothing of the environment counts: it may be of another zone.

A file with a token must be readable only by its owner (chmod 600). --token gives the
token itself; that is unsafe, because every user of the machine can see command lines.
`

// connection holds the flags about the zone to call.
type connection struct {
	addr, context, token, tokenFile, caCert string
	linearizable                            bool
}

// settingKeys are the keys of the file; in the environment they are in upper case with
// the prefix BERTH_.
var settingKeys = []string{"addr", "token", "cacert"}

// callerFlags adds the flags of commands that call a zone.
func (e *env) callerFlags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&e.conn.addr, "addr", "", "address of any node of the zone, or several with commas (default "+addrDefault+")")
	f.StringVar(&e.conn.context, "context", "", "name of saved settings; see: berth context --help")
	f.StringVar(&e.conn.token, "token", "", "bearer token; unsafe, other users can see it: prefer --token-file")
	f.StringVar(&e.conn.tokenFile, "token-file", "", "file with the bearer token, - for standard input")
	f.StringVar(&e.conn.caCert, "cacert", "", "file with the PEM certificate of the zone's CA")
	f.BoolVar(&e.conn.linearizable, "linearizable", false, "read all acknowledged changes, not only those known to one node; slower")
	e.outputFlags(c)
}

// outputFlags adds the flags about how a list or an answer is printed.
func (e *env) outputFlags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVarP(&e.format, "output", "o", formatTable, "output format: table, wide (more columns), name (of each item), csv, json or yaml")
	f.StringVar(&e.jq, "jq", "", "`EXPRESSION` of jq: print what it finds in the answer, which is as with --output json")
	f.BoolVar(&e.noHeaders, "no-headers", false, "print tables without header lines")
	mustFlag(c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
}

// callerCommands adds the flags of commands that call a zone to cmds and returns them.
func callerCommands(e *env, cmds ...*cobra.Command) []*cobra.Command {
	for _, c := range cmds {
		e.callerFlags(c)
		e.listFlags(c)
		mustFlag(c.RegisterFlagCompletionFunc("context", e.completeContext))
	}
	return cmds
}

// newClient returns a client for the zone in the settings.
func (e *env) newClient() (*client.Client, error) {
	cfg, err := e.clientConfig()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg)
	if err == nil && e.conn.linearizable {
		c = c.Linearizable()
	}
	return c, err
}

// clientConfig returns the configuration of a client for the zone in the settings.
func (e *env) clientConfig() (client.Config, error) {
	s, err := e.readSettings()
	if err != nil {
		return client.Config{}, err
	}
	e.calling = s["addr"]
	cfg, err := configOf(s)
	cfg.Now, cfg.HTTP = e.now, e.http
	return cfg, err
}

// configOf returns the configuration of a client for the zone of some settings.
func configOf(s map[string]string) (client.Config, error) {
	cfg := client.Config{Addr: s["addr"], Token: strings.TrimSpace(s["token"])}
	if path := s["cacert"]; path != "" {
		var err error
		if cfg.CACert, err = os.ReadFile(path); err != nil {
			return cfg, exitError(exitUsage, seeSettings, "reading the CA certificate: %w", err)
		}
	}
	return cfg, nil
}

// Variables beside those of the settings.
const (
	envContext   = "BERTH_CONTEXT"    // names a context
	envToken     = "BERTH_TOKEN"      //nolint:gosec // the name of a variable
	envTokenFile = "BERTH_TOKEN_FILE" //nolint:gosec // the name of a variable
)

// seeSettings is the hint of errors about settings.
const seeSettings = "see: berth help settings"

// readSettings returns the settings by key: those of the flags, and else those of the context that --context
// names, or of the environment, and of the context that it names, of the one in use, or of the file by itself. A
// context is never mixed with what the file has for another zone, nor one that is named with the environment: that
// may have the token of another zone.
func (e *env) readSettings() (map[string]string, error) {
	f, err := e.readSettingsFile()
	if err != nil {
		return nil, err
	}
	saved, environ := f.own, e.getenv
	if e.conn.context != "" {
		environ = func(string) string { return "" }
	}
	if name := cmp.Or(e.conn.context, e.getenv(envContext), f.current); name != "" {
		if saved, err = f.find(name); err != nil {
			return nil, err
		}
	}
	token, err := e.tokenFlag()
	if err == nil && token == "" {
		token, err = e.environToken(environ)
	}
	if err != nil {
		return nil, err
	}
	flags := map[string]string{"addr": e.conn.addr, "token": token, "cacert": e.conn.caCert}
	s := map[string]string{}
	for _, key := range settingKeys {
		s[key] = cmp.Or(flags[key], environ("BERTH_"+strings.ToUpper(key)), saved[key])
	}
	s["addr"] = cmp.Or(s["addr"], addrDefault)
	return s, nil
}

// flattenSettings puts values under their keys into s; for nested objects the keys are
// joined with dots.
func flattenSettings(s map[string]string, prefix string, values map[string]any) {
	for key, v := range values {
		switch v := v.(type) {
		case map[string]any:
			flattenSettings(s, prefix+key+".", v)
		case nil:
			s[prefix+key] = ""
		default:
			s[prefix+key] = fmt.Sprint(v)
		}
	}
}

// tokenFlag returns the token that the flags give, "" for none.
func (e *env) tokenFlag() (string, error) {
	switch {
	case e.conn.token != "" && e.conn.tokenFile != "":
		return "", exitError(exitUsage, "see: berth help settings", "give --token or --token-file, not both")
	case e.conn.tokenFile != "":
		return e.readSecret(e.conn.tokenFile)
	}
	return e.conn.token, nil
}

// environToken returns the token that the environment gives, "" for none.
func (e *env) environToken(environ func(string) string) (string, error) {
	token, file := environ(envToken), environ(envTokenFile)
	switch {
	case token != "" && file != "":
		return "", exitError(exitUsage, seeSettings, "set %s or %s, not both", envToken, envTokenFile)
	case file != "":
		return e.readSecret(file)
	}
	return token, nil
}

// secretMaxBytes bounds a file with one token.
const secretMaxBytes = 4096

// readSecret returns the one line of the file at path, which others must not be able to read, or of standard input for "-".
func (e *env) readSecret(path string) (string, error) {
	var b []byte
	var err error
	if path == "-" {
		b, err = io.ReadAll(io.LimitReader(e.in, secretMaxBytes+1))
	} else {
		b, err = durable.ReadPrivate(path)
	}
	if err != nil {
		return "", exitError(exitUsage, "", "reading a token: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" || len(b) > secretMaxBytes || strings.ContainsAny(text, "\r\n") {
		return "", exitError(exitUsage, "", "%s must contain one token and nothing else", path)
	}
	return text, nil
}
