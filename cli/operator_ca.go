package cli

import (
	"context"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/identity"
)

func caStatus(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the authorities of the zone, and how far a change is",
		Long: `Show the certificate authorities that the zone trusts, and how far a change is:

  stable   there is one
  trusted  everybody is told to trust the next one; the old one issues certificates
  used     the next one issues, and all get certificates of it; the old one is still trusted

Listed is who would be refused if the change went on now, and which linked zones have yet
to drop an authority that this zone has dropped.`,
		Example: "  berth operator ca status\n  berth operator ca status -o json",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			var got rest.CA
			err := showAnswer(ctx, e, func(ctx context.Context) (_ rest.CA, err error) {
				got, err = c.CA(ctx)
				return got, err
			}, caTables)
			if err == nil {
				e.printNote("%s", nextOfCA(&got))
			}
			return err
		}),
	}
}

// caTables show the authorities of a zone, and for whom the change waits.
func caTables(ca rest.CA) []table {
	var head table
	head.addRow("PHASE", ca.Phase)
	if ca.Due != "" {
		head.addRow("DUE", ca.Due)
	}
	tables := append([]table{head}, tableOf("AUTHORITY|ISSUES|SINCE|EXPIRES", func(a rest.CAAuthority) []any {
		return []any{a.Fingerprint, showBool(a.Issues), showInstant(a.Since), showInstant(a.Expires)}
	})(ca.Authorities)...)
	row := func(w rest.CAWait) []any { return []any{w.Kind, w.Name, w.Error} }
	if len(ca.Waits) > 0 {
		tables = append(tables, tableOf("WAITS FOR|NAME|ERROR", row)(ca.Waits)...)
	}
	if len(ca.Behind) > 0 {
		tables = append(tables, tableOf("BEHIND|NAME|ERROR", row)(ca.Behind)...)
	}
	return tables
}

// nextOfCA says what to do next.
func nextOfCA(ca *rest.CA) string {
	switch {
	case ca.Phase == api.CAStable && len(ca.Behind) > 0:
		return "linked zones are still told to drop the old authority; until they have, they accept its certificates"
	case ca.Phase == api.CAStable && ca.Due != "":
		return "next: berth operator ca rotate"
	case ca.Phase == api.CAStable:
		return "nothing changes"
	case len(ca.Waits) > 0:
		return "wait until the list is empty, or see: berth help operator ca " + verbOfCA(ca.Phase)
	case ca.Phase == api.CATrusted:
		return "next: save the output of berth operator ca show where clients have their ca.pem, then: berth operator ca use"
	}
	return "next: berth operator ca finish"
}

// verbOfCA returns the verb that ends a phase.
func verbOfCA(p api.CAPhase) string {
	if p == api.CATrusted {
		return "use"
	}
	return "finish"
}

func caShow(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print the certificates of the authorities, for clients",
		Long: `Print the certificates of all authorities that the zone trusts, in PEM: what --cacert
and BERTH_CACERT of clients need. The directories of nodes and agents have it as ca.pem,
and keep it up to date by themselves.`,
		Example: "  berth operator ca show > ca.pem.new && mv ca.pem.new ca.pem",
		Args:    exactArgs(),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			ca, err := c.CA(ctx)
			if err == nil {
				printText(e.out, "%s", ca.Bundle)
			}
			return err
		}),
	}
}

func caRotate(e *env) *cobra.Command {
	var cert, key string
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Begin a change: make the next authority, which all are told to trust",
		Long: `Make the next certificate authority of the zone. Nodes, agents and linked zones are told to
trust it beside the one in use, which still issues certificates. No zone can be linked
until the change is finished.

Change the authority when a node was removed whose disk may be in foreign hands, when
somebody may have read its key, and in the year before it ends.

With --ca-cert and --ca-key the next one is yours. It must be as the zone makes its own: see
"Bring your own certificates" in docs/operate.md. Its key goes to the leader, which seals it.`,
		Example: "  berth operator ca rotate && berth operator ca status\n  berth operator ca rotate --ca-cert zone-ca.pem --ca-key zone-key.pem",
		Args:    exactArgs(),
	}
	c.Flags().StringVar(&cert, "ca-cert", "", "file with the certificate of the next authority in PEM (default: the zone makes one)")
	c.Flags().StringVar(&key, "ca-key", "", "file with its key in PEM")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		var brought rest.CABrought
		if cert != "" || key != "" {
			b, k, err := identity.ReadCAFiles(cert, key)
			if err == nil {
				_, err = identity.ParseCA(b, k, e.now()) // before the key is sent to anybody
			}
			if err != nil {
				return localError(err)
			}
			brought = rest.CABrought{Cert: string(b), Key: string(k)}
		}
		if err := cl.RotateCA(ctx, brought); err != nil {
			return err
		}
		e.printNote("all are told to trust the next authority; follow it with: berth operator ca status")
		return nil
	})
	return c
}

func caUse(e *env) *cobra.Command {
	return caChange(e, api.CATrusted, (*client.Client).UseCA, &cobra.Command{
		Use:   "use",
		Short: "Let the next authority issue certificates",
		Long: `Let the next authority issue certificates. All nodes and agents get one within moments, and
the key of the old authority is destroyed. The public API shows a certificate of the next
one: clients need the output of "berth operator ca show" before.

It is refused while a node, an agent or a linked zone does not trust the next authority
yet, and while a join token is valid that names the old one alone. With --force these are
lost: a node must be removed and join under another name, an agent must join again, a zone
must be unlinked and linked again, and a token must be made again.`,
		Example: "  berth operator ca use\n  berth operator ca use --force --yes",
	}, "let the next authority issue certificates: clients that trust the old one alone refuse the zone from then on")
}

func caFinish(e *env) *cobra.Command {
	return caChange(e, api.CAUsed, (*client.Client).FinishCA, &cobra.Command{
		Use:   "finish",
		Short: "End the trust in the old authority",
		Long: `End the trust in the old authority, here and in all linked zones. From then on its
certificates are refused, and their connections are closed: those of nodes that were
removed, and those that somebody has made with its key.

It is refused while a node or an agent has no certificate of the new authority, or a linked
zone does not trust that. With --force these are lost, as with "berth operator ca use".
A linked zone that cannot be reached drops the old authority when it can, and accepts it
until then: "berth operator ca status" lists it.`,
		Example: "  berth operator ca finish\n  berth operator ca finish --force --yes",
	}, "end the trust in the old authority")
}

// caChange completes a command that goes on with the change of the authority. It says first who would be
// lost, and asks.
func caChange(e *env, in api.CAPhase, do func(c *client.Client, ctx context.Context, force bool) error, c *cobra.Command, what string) *cobra.Command {
	var s sure
	var force bool
	s.addFlag(c)
	c.Flags().BoolVar(&force, "force", false, "also if somebody is refused from then on")
	c.Args = exactArgs()
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		now, err := cl.CA(ctx)
		if err != nil {
			return err
		}
		if now.Phase == in {
			for _, w := range now.Waits {
				e.printNote("would be lost: %s %s", w.Kind, stripControls(w.Name))
			}
			if len(now.Waits) > 0 && !force {
				return exitError(exitConflict, "wait, or accept the loss with --force; see berth operator ca status",
					"%d would be refused from then on", len(now.Waits))
			}
			if err = e.confirmAction(ctx, s, what); err != nil {
				return err
			}
		}
		if err = do(cl, ctx, force); err != nil {
			return err
		}
		e.printNote("done; see: berth operator ca status")
		return nil
	})
	return c
}
