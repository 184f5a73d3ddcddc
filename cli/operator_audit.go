package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

func operatorAudit(e *env) *cobra.Command {
	return nounCommand("audit", "See who changed what in the zone",
		&cobra.Command{
			Use:     "list",
			Short:   "List the changes by operators, oldest first",
			Example: "  berth operator audit list\n  berth operator audit list -o json",
			Args:    exactArgs(),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
				return listAll(ctx, e, "audit", c.Audit, tableOf("NUMBER|AT|ACTOR|ID|USER|CALL|CHANGE|TARGET|OUTCOME|REQUEST", func(r rest.AuditRecord) []any {
					return []any{r.Number, showInstant(r.At), r.Actor.Kind, r.Actor.ID, r.Actor.User, r.Call, r.Change, r.Target, r.Outcome, r.Request}
				}))
			}),
		},
		auditVerify(e),
		&cobra.Command{
			Use:     "export FILE",
			Short:   "Write the audit log to a new file, one record a line",
			Example: "  berth operator audit export audit.jsonl",
			Args:    exactArgs("a FILE"),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				return e.exportAudit(ctx, c, args[0])
			}),
		},
	)
}

func auditVerify(e *env) *cobra.Command {
	var files []string
	verify := &cobra.Command{
		Use:   "verify [--file FILE ...]",
		Short: "Check the sums of the audit log",
		Long: `Check that each record of the audit log has its sum and follows the one before it, and
print number and sum of the newest. Compare them with a sum that you kept elsewhere: a log that
was replaced as a whole has sums of its own.

With files, no call is made. Name exported files oldest first: each must continue the one before
it, and may repeat the records at its end.`,
		Example: "  berth operator audit verify\n  berth operator audit verify --file october.jsonl --file november.jsonl",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			chain := new(auditChain)
			if len(files) == 0 {
				if err := eachAudit(ctx, c, chain.add); err != nil {
					return err
				}
			}
			for _, file := range files {
				if err := eachExported(file, chain.add); err != nil {
					return err
				}
			}
			if chain.last == nil {
				e.printNote("there are no records yet")
				return nil
			}
			e.printNote("%d records are whole; the newest is %d with the sum", len(chain.sums), chain.last.Number)
			_, err := fmt.Fprintln(e.out, chain.last.Sum)
			return err
		}),
	}
	verify.Flags().StringArrayVar(&files, "file", nil, "a `FILE` of berth operator audit export to check, without a call; may be repeated")
	return verify
}

// auditChain checks records that arrive oldest first; a later file may repeat some.
type auditChain struct {
	last *rest.AuditRecord
	sums map[uint64]string
}

func (a *auditChain) add(r *rest.AuditRecord) error {
	before := a.last
	sum, again := a.sums[r.Number]
	if again {
		before = nil
	}
	err := r.Check(before)
	if err == nil && again && sum != r.Sum {
		err = fmt.Errorf("record %d is another one than in the file before", r.Number)
	}
	if err != nil {
		return fmt.Errorf("the audit log is not whole: %w", err)
	}
	if !again {
		if a.sums == nil {
			a.sums = map[uint64]string{}
		}
		a.last, a.sums[r.Number] = r, r.Sum
	}
	return nil
}

// exportAudit writes the audit log to a new file.
func (e *env) exportAudit(ctx context.Context, c *client.Client, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return exitError(exitConflict, "choose another name", "writing the audit log: %w", err)
	}
	n, to := 0, json.NewEncoder(f)
	err = eachAudit(ctx, c, func(r *rest.AuditRecord) error {
		n++
		return to.Encode(r)
	})
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	e.printNote("%d records written to %s", n, file)
	return nil
}

// eachAudit calls visit with each record of the zone's audit log, oldest first.
func eachAudit(ctx context.Context, c *client.Client, visit func(*rest.AuditRecord) error) error {
	for o := (client.ListOptions{}); ; {
		page, err := c.Audit(ctx, o)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		if o.Marker = page.Next; page.Next == "" {
			return nil
		}
	}
}

// eachExported calls visit with each record of an exported file.
func eachExported(path string, visit func(*rest.AuditRecord) error) error {
	f, err := os.Open(path)
	if err != nil {
		return exitError(exitUsage, "", "reading the audit log: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	for from := json.NewDecoder(bufio.NewReader(f)); ; {
		r := new(rest.AuditRecord)
		switch err := from.Decode(r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return exitError(exitUsage, "", "reading the audit log: %w", err)
		}
		if err := visit(r); err != nil {
			return err
		}
	}
}
