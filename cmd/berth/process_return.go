package main

import (
	"os"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/cli"
	"berth/node"
)

// backupFlags name a backup with which a zone begins, and its key.
type backupFlags struct{ file, kek, kekDisk string }

func (b *backupFlags) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&b.file, "from-backup", "", "file with a backup of a zone that has lost all of its nodes, to bring it back")
	f.StringVar(&b.kek, "kek", "", "with --from-backup, file with the key-encryption key of the zone: kek of one of its nodes, or a copy")
	f.StringVar(&b.kekDisk, "kek-disk-key-file", "", "file with the disk key that seals the file of --kek, if that node had one")
}

// initFromBackup makes the first node of a zone that is brought back.
func (e *env) initFromBackup(o node.InitOptions, from backupFlags, disk string) error {
	if from.kek == "" {
		return api.Errorf(api.CodeInvalid, "--from-backup needs the key-encryption key of the zone: --kek FILE")
	}
	if o.CA != nil {
		return api.Errorf(api.CodeInvalid, "--ca-cert does not go together with --from-backup: the backup has the authority of the zone")
	}
	key, err := cli.ReadDiskKey(from.kekDisk)
	if err != nil {
		return err
	}
	keks, err := node.ReadKEKs(from.kek, key)
	if err != nil {
		return api.Wrap(api.CodeInvalid, "berth", err.Error(), err)
	}
	backup, err := os.ReadFile(from.file)
	if err != nil {
		return api.Wrap(api.CodeInvalid, "berth", "the backup cannot be read: "+err.Error(), err)
	}
	r, err := node.InitFromBackup(o, backup, keks)
	if err != nil {
		return err
	}
	e.printNote("zone %q (%s) comes back in %s as incarnation %d, with what it had at %s", r.Zone, r.ZoneID, o.Dir, r.Incarnation, r.At.Time().Format("2006-01-02T15:04:05Z"))
	e.printNote("none of its nodes of before may run again; start the new one, %s, with: %s", r.Node, startLine(o.Dir, disk))
	for _, l := range r.Links {
		e.printNote("the operator of the %s %q has to accept it there: berth zone relink", l.Role, l.Name)
	}
	e.printNote("an admin token follows; it is shown once and stored nowhere")
	e.printLine("%s", r.Token)
	return nil
}
