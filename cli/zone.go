package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

func zoneCommand(e *env) *cobra.Command {
	c := nounCommand("zone", "See and link the zones next to this one",
		&cobra.Command{
			Use:     "list",
			Short:   "List the parent and the children of the zone",
			Example: "  berth zone list\n  berth zone list -o json",
			Args:    exactArgs(),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
				return listAll(ctx, e, "zones", c.Zones, tableOf("NAME|ROLE|STATE|HEALTH|CLOCK|WEIGHT OFFSET|WEIGHT SCALE|AZ|TAGS", func(l rest.Zone) []any {
					return []any{l.Name, l.Role, zoneStateText(&l), l.Health, showClock(l.Clock), showPoints(l.Offset), l.Scale, l.AZ, strings.Join(l.Tags, ", ")}
				}))
			}),
		},
		&cobra.Command{
			Use:               "show ZONE",
			Short:             "Show one linked zone and the figures it reports",
			Example:           "  berth zone show west",
			Args:              exactArgs("a ZONE"),
			ValidArgsFunction: e.completeFirst(zoneNames),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
				return showAnswer(ctx, e, func(ctx context.Context) (rest.Zone, error) { return c.Zone(ctx, args[0]) }, zoneTables)
			}),
		},
		&cobra.Command{
			Use:     "info",
			Short:   "Show the zone itself",
			Example: "  berth zone info",
			Args:    exactArgs(),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
				return showAnswer(ctx, e, c.ZoneInfo, infoTables)
			}),
		},
		zoneTree(e), zoneLinkToken(e), zoneLink(e), zoneSet(e),
		zoneState(e, "pause", "Send no new work to a zone; its instances stay", api.LinkPaused),
		zoneState(e, "resume", "Send work to a zone again", api.LinkActive),
		zoneMaintenance(e),
		zoneUnlink(e), zoneRelink(e),
	)
	c.Aliases = []string{"zones"}
	return c
}

// zoneStateText returns the state of a linked zone, whether it is in maintenance, and what to do if it was brought
// back from a backup and nobody has confirmed that.
func zoneStateText(l *rest.Zone) string {
	text := string(l.State)
	if l.Maintenance {
		text += ", maintenance"
	}
	if l.Unconfirmed > 0 {
		text += ", unconfirmed: berth zone relink " + l.Name
	}
	return text
}

func zoneTables(l rest.Zone) []table {
	var t table
	t.addRow("NAME", l.Name)
	t.addRow("LINK", l.ID)
	t.addRow("ZONE", l.Zone)
	t.addRow("ROLE", l.Role)
	t.addRow("STATE", zoneStateText(&l))
	t.addRow("HEALTH", l.Health)
	t.addRow("GATEWAYS", strings.Join(l.Endpoints, ", "))
	t.addRow("WEIGHT OFFSET", showPoints(l.Offset))
	t.addRow("WEIGHT SCALE", l.Scale)
	if l.Role == api.LinkChild {
		t.addRow("AZ", l.AZ)
		t.addRow("AFFINITY TAGS", strings.Join(l.Tags, ", "))
		t.addRow("HEADROOM", showPercents(l.Headroom))
	}
	if l.Share != nil {
		t.addRow("SHARE HELD", fmt.Sprintf("%d%%", l.Share.Held))
		t.addRow("SHARE COMMITTED", fmt.Sprintf("%d%%", l.Share.Committed))
	}
	t.addRow("CREATED", showInstant(l.Created))
	t.addRow("UPDATED", showInstant(l.Updated))
	return append(append([]table{t}, shareTables(l.Share)...), digestTables(l.Digest)...)
}

// shareTables show what a parent has of the zone, and may have.
func shareTables(s *rest.ZoneShare) []table {
	if s == nil || len(s.Classes) == 0 {
		return nil
	}
	t := table{header: []string{"CLASS", "HELD", "HELD MAX", "COMMITTED", "COMMITTED MAX"}}
	classes := api.Resources{}
	for c := range s.Classes {
		classes[c] = 1
	}
	for _, c := range classes.Classes() {
		n := s.Classes[c]
		t.addRow(c, n.Held, n.HeldMax, n.Committed, n.CommittedMax)
	}
	return []table{t}
}

func infoTables(z rest.ZoneInfo) []table {
	var t table
	t.addRow("NAME", z.Name)
	t.addRow("ID", z.ID)
	t.addRow("VERSION", z.Version)
	return append([]table{t}, digestTables(z.Digest)...)
}

// digestTables show the digest that a zone spreads by gossip.
func digestTables(d *rest.Digest) []table {
	if d == nil {
		return nil
	}
	about := table{}
	about.addRow("REPORTED AT", showInstant(d.At))
	about.addRow("HEALTH", d.Health)
	about.addRow("TAGS", strings.Join(d.Tags, ", "))
	about.addRow("TRAITS", strings.Join(d.Traits, ", "))
	t := table{header: []string{"CLASS", "TOTAL", "FREE", "SLOT MIN", "SLOT MAX"}}
	totals := api.Resources{}
	for c := range d.Classes {
		totals[c] = 1
	}
	for _, c := range totals.Classes() {
		n := d.Classes[c]
		t.addRow(c, n.Total, n.Free, n.SlotMin, n.SlotMax)
	}
	return []table{about, t}
}

// weighing holds the flags about the weights of a child.
type weighing struct {
	offset points
	scale  int64
}

func (w *weighing) addFlags(c *cobra.Command) {
	c.Flags().Var(&w.offset, "weight-offset", "prefer the zone as if each host there had so much less free memory, such as 64G; -64G: more")
	c.Flags().Int64Var(&w.scale, "weight-scale", 1, "number to multiply each weight by, before the offset; at least 1")
}

// zoneSpec returns the flags that were given.
func (w *weighing) zoneSpec(c *cobra.Command) rest.ZoneSpec {
	var s rest.ZoneSpec
	if c.Flags().Changed("weight-offset") {
		s.Offset = new(int64(w.offset))
	}
	if c.Flags().Changed("weight-scale") {
		s.Scale = &w.scale
	}
	return s
}

func zoneLinkToken(e *env) *cobra.Command {
	var w weighing
	c := &cobra.Command{
		Use:   "link-token NAME",
		Short: "Create a token for a zone to become a child of this one",
		Long: `Create and print a token with which one zone may become a child of this one. It is
valid for one use and 15 minutes. Give it to the operator of the future child, who
runs berth zone link.`,
		Example: "  berth zone link-token west > west.token",
		Args:    exactArgs("a NAME"),
	}
	w.addFlags(c)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		s := w.zoneSpec(c)
		s.Name = &args[0]
		return showAnswer(ctx, e, func(ctx context.Context) (string, error) { return cl.CreateLinkToken(ctx, s) }, bareToken)
	})
	return c
}

// bareToken shows only the token, ready for a file.
func bareToken(token string) []table { return []table{{rows: [][]string{{token}}}} }

func zoneLink(e *env) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "link [NAME]",
		Short: "Make this zone a child of another",
		Long: `Make this zone a child of the zone that created the link token. Here the parent is
called NAME, by default "parent".`,
		Example: "  berth zone link europe --link-token-file west.token",
		Args:    atMost(1),
	}
	c.Flags().StringVar(&file, "link-token-file", "", "file with the link token, - for standard input (required)")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		if file == "" {
			return usageError(c, "%q needs --link-token-file", c.CommandPath())
		}
		token, err := e.readSecret(file)
		if err != nil {
			return err
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Zone, error) {
			return cl.LinkZone(ctx, token, optionalArg(args))
		}, zoneTables)
	})
	return c
}

// zoneTermsFlags are the flags about what an operator says of a child.
type zoneTermsFlags struct {
	az                 string
	tags, headroom     []string
	noTags, noHeadroom bool
}

func (t *zoneTermsFlags) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&t.az, "az", "", "availability zone that the child offers; empty for those that it reports")
	f.StringArrayVar(&t.tags, "tag", nil, "affinity tag `KEY=VALUE` of the child; replaces the present ones, +KEY=VALUE adds, -KEY=VALUE removes; may be repeated")
	f.BoolVar(&t.noTags, "no-tags", false, "remove all affinity tags of the child")
	f.StringArrayVar(&t.headroom, "headroom", nil, "`CLASS=PERCENT` of the child that stays free of bound projects; replaces the present ones; may be repeated")
	f.BoolVar(&t.noHeadroom, "no-headroom", false, "remove the headroom of the child; it has that of the configuration")
	c.MarkFlagsMutuallyExclusive("tag", "no-tags")
	c.MarkFlagsMutuallyExclusive("headroom", "no-headroom")
}

// changed reports whether any of the flags is given.
func (*zoneTermsFlags) changed(c *cobra.Command) bool {
	return anyChanged(c, "az", "tag", "no-tags", "headroom", "no-headroom")
}

// apply sets what is given. It asks for the present tags only if they are to be changed.
func (t *zoneTermsFlags) apply(ctx context.Context, cl *client.Client, c *cobra.Command, ref string, to *rest.ZoneSpec) (err error) {
	if c.Flags().Changed("az") {
		to.AZ = &t.az
	}
	if len(t.headroom) > 0 || t.noHeadroom {
		if to.Headroom, err = readPercents(c, "headroom", t.headroom); err != nil {
			return err
		}
	}
	if len(t.tags) == 0 && !t.noTags {
		return nil
	}
	if err = checkChanges(c, "tag", "tags", t.tags); err != nil {
		return err
	}
	tags := []string{}
	if len(t.tags) > 0 && strings.ContainsAny(t.tags[0][:min(1, len(t.tags[0]))], "+-") {
		var z rest.Zone
		if z, err = cl.Zone(ctx, ref); err != nil {
			return err
		}
		tags = z.Tags
	}
	if err = changeList(c, "tag", t.tags, &tags); err != nil {
		return err
	}
	to.Tags = &tags
	return nil
}

// zoneShareFlags are the flags about what a parent may have of the zone.
type zoneShareFlags struct{ held, committed int }

func (s *zoneShareFlags) addFlags(c *cobra.Command) {
	c.Flags().IntVar(&s.held, "share-held", api.ShareHeldDefault, "`PERCENT` of each class that the parent may have in holds that it has not decided")
	c.Flags().IntVar(&s.committed, "share-committed", api.ShareCommittedDefault, "`PERCENT` of each class that the parent may have, decided or not")
}

// apply sets what is given.
func (s *zoneShareFlags) apply(c *cobra.Command, to *rest.ZoneSpec) {
	if c.Flags().Changed("share-held") {
		to.ShareHeld = &s.held
	}
	if c.Flags().Changed("share-committed") {
		to.ShareCommitted = &s.committed
	}
}

func zoneSet(e *env) *cobra.Command {
	var w weighing
	var terms zoneTermsFlags
	var share zoneShareFlags
	var name string
	var gateways []string
	c := &cobra.Command{
		Use:   "set ZONE",
		Short: "Change the name, weights, gateways, tags or share of a linked zone",
		Long: `Change the name, weights or gateways that this zone records for a linked one. Changes
of gateways are followed automatically; use --gateway if contact was lost because all
nodes of both zones were replaced while they could not reach each other.

A weight is a cost in points; one point is the worth of 1 MiB of memory. By default a host
with more free memory is cheaper, so with --weight-offset 64G a zone gets work when its
hosts have 64 GiB more free memory than others; an offset above the memory of any
host, such as 16T, makes it the last resort. Other resources count too if the
configuration of a zone says so: a VCPU as 4G, a gigabyte of disk as 64M.

Of a child also its availability zone, affinity tags and headroom, by which projects are
bound to one child; a child that reports tags of its own keeps them apart from these. Tags
are read and written back: of two concurrent changes the later one wins. See also
"berth zone maintenance" and "berth binding".

Of the parent also its share of this zone, in percent of the capacity of each resource
class at any instant. Nothing is taken back when a share is lowered: the parent gets no
more until it has less than that.`,
		Example: "  berth zone set west --weight-offset 64G\n  berth zone set west --name west-1\n" +
			"  berth zone set west --gateway 10.2.0.5:7601 --gateway 10.2.0.6:7601\n" +
			"  berth zone set west --az az1 --tag +gpu=cad --headroom VCPU=10 --headroom MEMORY_MB=5\n" +
			"  berth zone set europe --share-held 25 --share-committed 80",
		Args:              exactArgs("a ZONE"),
		ValidArgsFunction: e.completeFirst(zoneNames),
	}
	w.addFlags(c)
	terms.addFlags(c)
	share.addFlags(c)
	c.Flags().StringVar(&name, "name", "", "name of the zone here")
	c.Flags().StringArrayVar(&gateways, "gateway", nil, "`HOST:PORT` of one of its gateways, replaces the known ones; may be repeated")
	e.flagNames(c, "az", azNames)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, args []string) error {
		s := w.zoneSpec(c)
		if name != "" {
			s.Name = &name
		}
		s.Gateways = gateways
		share.apply(c, &s)
		if s.Name == nil && s.Offset == nil && s.Scale == nil && s.Gateways == nil && !terms.changed(c) && !s.HasShare() {
			return usageError(c, "%q needs something to set", c.CommandPath())
		}
		if err := terms.apply(ctx, cl, c, args[0], &s); err != nil {
			return err
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Zone, error) { return cl.UpdateZone(ctx, args[0], s) }, zoneTables)
	})
	return c
}

func zoneState(e *env, name, short string, state api.LinkState) *cobra.Command {
	return &cobra.Command{
		Use:               name + " ZONE",
		Short:             short,
		Example:           fmt.Sprintf("  berth zone %s west", name),
		Args:              exactArgs("a ZONE"),
		ValidArgsFunction: e.completeFirst(zoneNames),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return showAnswer(ctx, e, func(ctx context.Context) (rest.Zone, error) {
				return c.UpdateZone(ctx, args[0], rest.ZoneSpec{State: &state})
			}, zoneTables)
		}),
	}
}
