package main

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/cli"
)

// configFlag is --config of a process.
type configFlag struct {
	path   string
	typed  map[string][]string // what the command line gives
	beaten []string            // settings of the file that a flag has another value for
}

// addFlag adds the flag to a command, which reads the file before it runs. The command needs --dir, by
// flag or file.
func (f *configFlag) addFlag(c *cobra.Command, e *env, known settings) {
	c.Flags().StringVar(&f.path, "config", "", "file with settings, in YAML; flags beat it, and it is read again on SIGHUP")
	cli.RequireFlags(c, "dir")
	required := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if err := cli.RunLocally(func(*cobra.Command, []string) error { return f.readFile(c, e, known) })(c, args); err != nil {
			return err
		}
		return required(c, args)
	}
}

func (f *configFlag) readFile(c *cobra.Command, e *env, known settings) error {
	f.typed = map[string][]string{}
	for name := range known {
		if c.Flags().Changed(name) {
			f.typed[name] = valuesAsInFile(c, name)
		}
	}
	if f.path == "" {
		return nil
	}
	if f.path == "-" {
		return api.Errorf(api.CodeInvalid, "--config must name a file: the standard input cannot be read again")
	}
	file, err := readSettings(e.in, f.path, c, known)
	if err == nil {
		f.beaten, err = file.apply(c)
	}
	return refuseFile(err)
}

// refuseFile returns mistakes in a file as an invalid-input error.
func refuseFile(err error) error {
	if bad, ok := errors.AsType[*mistakes](err); ok {
		return api.Wrap(api.CodeInvalid, "berth", bad.Error(), err)
	}
	return err
}

// logUse logs that the settings are those of a file, and what was given otherwise.
func (f *configFlag) logUse(log *slog.Logger) {
	switch {
	case f.path == "":
	case len(f.beaten) > 0:
		log.Info("the configuration file was read, and flags beat it", "file", f.path, "flags", strings.Join(f.beaten, ","))
	default:
		log.Info("the configuration file was read", "file", f.path)
	}
}
