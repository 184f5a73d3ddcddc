package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"berth/api/client"
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

The file is $XDG_CONFIG_HOME/berth/config.yaml, or ~/.config/berth/config.yaml:

  addr: https://zone.example:7600
  token: berth_...
  cacert: /etc/berth/ca.pem

A file with a token must be readable only by its owner (chmod 600). --token gives the
token itself; that is unsafe, because every user of the machine can see command lines.
`

// connection holds the flags about the zone to call.
type connection struct {
	addr, token, tokenFile, caCert string
	linearizable                   bool
}

// settingKeys are the keys of the file; in the environment they are in upper case with
// the prefix BERTH_.
var settingKeys = []string{"addr", "token", "cacert"}

// callerFlags adds the flags of commands that call a zone.
func (e *env) callerFlags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&e.conn.addr, "addr", "", "address of any node of the zone (default "+addrDefault+")")
	f.StringVar(&e.conn.token, "token", "", "bearer token; unsafe, other users can see it: prefer --token-file")
	f.StringVar(&e.conn.tokenFile, "token-file", "", "file with the bearer token, - for standard input")
	f.StringVar(&e.conn.caCert, "cacert", "", "file with the PEM certificate of the zone's CA")
	f.BoolVar(&e.conn.linearizable, "linearizable", false, "read all acknowledged changes, not only those known to one node; slower")
	f.StringVarP(&e.format, "output", "o", formatTable, "output format: table, json or yaml")
	f.BoolVar(&e.noHeaders, "no-headers", false, "print tables without header lines")
}

// callerCommands adds the flags of commands that call a zone to cmds and returns them.
func callerCommands(e *env, cmds ...*cobra.Command) []*cobra.Command {
	for _, c := range cmds {
		e.callerFlags(c)
		mustFlag(c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
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
	e.calling = cmp.Or(s["addr"], addrDefault)
	cfg := client.Config{Addr: e.calling, Token: strings.TrimSpace(s["token"])}
	if path := s["cacert"]; path != "" {
		if cfg.CACert, err = os.ReadFile(path); err != nil {
			return cfg, exitError(exitUsage, "see: berth help settings", "reading the CA certificate: %w", err)
		}
	}
	return cfg, nil
}

// readSettings returns the settings by key, from the file, the environment and the
// flags; later ones win.
func (e *env) readSettings() (map[string]string, error) {
	s, err := e.settingsFile()
	if err != nil {
		return nil, err
	}
	token, err := e.tokenFlag()
	if err != nil {
		return nil, err
	}
	flags := map[string]string{"addr": e.conn.addr, "token": token, "cacert": e.conn.caCert}
	for _, key := range settingKeys {
		s[key] = cmp.Or(flags[key], e.getenv("BERTH_"+strings.ToUpper(key)), s[key])
	}
	return s, nil
}

// settingsFile reads the file. A missing file is not an error; an unknown key is.
func (e *env) settingsFile() (map[string]string, error) {
	s := map[string]string{}
	dir := e.getenv("XDG_CONFIG_HOME")
	if home := e.getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if dir == "" {
		return s, nil
	}
	path := filepath.Join(dir, "berth", "config.yaml")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var given map[string]any
	if err == nil {
		err = yaml.Unmarshal(text, &given)
	}
	if err != nil { // without quoting the wrong line, which may hold the token
		return nil, exitError(exitUsage, "see: berth help settings", "reading %s: %s", path, yaml.FormatError(err, false, false))
	}
	flattenSettings(s, "", given)
	if info, err := os.Stat(path); err == nil && s["token"] != "" && info.Mode().Perm()&0o077 != 0 {
		return nil, exitError(exitUsage, "chmod 600 "+path, "%s holds a token, and other users can read it", path)
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if !slices.Contains(settingKeys, key) {
			return nil, exitError(exitUsage, "see: berth help settings", "%s: unknown setting %q", path, key)
		}
	}
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

// secretMaxBytes bounds a file with one token.
const secretMaxBytes = 4096

// readSecret returns the one line of the file at path, or of standard input for "-".
func (e *env) readSecret(path string) (string, error) {
	in := e.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", exitError(exitUsage, "", "reading a token: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, secretMaxBytes+1))
	if err != nil {
		return "", fmt.Errorf("reading a token: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" || len(b) > secretMaxBytes || strings.ContainsAny(text, "\r\n") {
		return "", exitError(exitUsage, "", "%s must contain one token and nothing else", path)
	}
	return text, nil
}
