package main

import (
	"time"

	"github.com/spf13/cobra"

	"berth/identity"
)

// caFlags name the files of an authority that an operator brings for a new zone.
type caFlags struct{ cert, key string }

func (f *caFlags) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.cert, "ca-cert", "", "file with the certificate of your own authority for the zone in PEM, which names the zone's id (default: a new authority)")
	c.Flags().StringVar(&f.key, "ca-key", "", "file with the key of --ca-cert in PEM")
}

// read returns the authority, nil without files.
func (f *caFlags) read(now time.Time) (*identity.CA, error) {
	if f.cert == "" && f.key == "" {
		return nil, nil
	}
	cert, key, err := identity.ReadCAFiles(f.cert, f.key)
	if err != nil {
		return nil, err
	}
	return identity.ParseCA(cert, key, now)
}
