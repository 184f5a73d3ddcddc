package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"berth/api/client"
	"berth/api/rest"
)

func webhookCommand(e *env) *cobra.Command {
	c := nounCommand("webhook", "Have the events of the project sent to an address",
		webhookCreate(e), webhookList(e), webhookShow(e), webhookResume(e), webhookDelete(e))
	c.Aliases = []string{"webhooks"}
	return c
}

// webhookClient returns the function of a command that has a project.
func webhookClient(e *env, w *whose, run func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return run(ctx, w.clientFor(c), args)
	})
}

func webhookCreate(e *env) *cobra.Command {
	var w whose
	var s rest.WebhookSpec
	var secretFile string
	c := &cobra.Command{
		Use:   "create NAME --url URL",
		Short: "Create a webhook; its secret is shown only once",
		Long: `Create a webhook: the zone sends every event of the project from now on to the URL, in
order and at least once, with a signature made with the secret. docs/events.md says how
to verify it. Without --secret-file the zone makes a secret.`,
		Example: "  berth webhook create pager --url https://example.org/berth --kind boot --kind instance.error",
		Args:    exactArgs("a NAME"),
	}
	w.addFlag(c)
	c.Flags().StringVar(&s.URL, "url", "", "`URL` to call, https://... (required)")
	c.Flags().StringSliceVar(&s.Kinds, "kind", nil, "`KIND` of events to send, or the beginning of some such as boot; may be repeated (default: all)")
	c.Flags().StringVar(&secretFile, "secret-file", "", "`FILE` with the secret, - for the standard input")
	c.RunE = webhookClient(e, &w, func(ctx context.Context, cl *client.Client, args []string) error {
		if s.URL == "" {
			return usageError(c, "%q needs --url", c.CommandPath())
		}
		if s.Name = args[0]; secretFile != "" {
			secret, err := e.readSecret(secretFile)
			if err != nil {
				return err
			}
			s.Secret = secret
		}
		return showAnswer(ctx, e, func(ctx context.Context) (rest.WebhookCreated, error) { return cl.CreateWebhook(ctx, s) },
			func(w rest.WebhookCreated) []table {
				t := table{header: []string{"NAME", "ID", "SECRET"}}
				t.addRow(w.Name, w.ID, w.Secret)
				return []table{t}
			})
	})
	return c
}

func webhookList(e *env) *cobra.Command {
	var w whose
	c := &cobra.Command{
		Use: "list", Short: "List the webhooks of the project", Example: "  berth webhook list\n  berth webhook list --all-projects", Args: exactArgs(),
	}
	w.addListFlags(c, "webhooks")
	c.RunE = webhookClient(e, &w, func(ctx context.Context, cl *client.Client, _ []string) error {
		if err := w.checkFlags(c); err != nil {
			return err
		}
		get := cl.Webhooks
		if w.all {
			get = cl.AllWebhooks
		}
		return showList(ctx, e, "webhooks", get, webhookRows(w.all))
	})
	return c
}

// webhookRows returns the table of webhooks, with their projects if there are several.
func webhookRows(projects bool) func([]rest.Webhook) []table {
	if projects {
		return tableOf("NAME|PROJECT|STATE|URL|KINDS|DELIVERED", func(w rest.Webhook) []any {
			return []any{w.Name, w.Project, w.State, w.URL, showKinds(w.Kinds), w.Delivered}
		})
	}
	return tableOf("NAME|STATE|URL|KINDS|DELIVERED", func(w rest.Webhook) []any {
		return []any{w.Name, w.State, w.URL, showKinds(w.Kinds), w.Delivered}
	})
}

func showKinds(kinds []string) string {
	if len(kinds) == 0 {
		return "all"
	}
	return strings.Join(kinds, ", ")
}

func webhookShow(e *env) *cobra.Command {
	var w whose
	c := &cobra.Command{
		Use: "show NAME", Short: "Show a webhook, and why its deliveries fail", Example: "  berth webhook show pager", Args: exactArgs("a NAME"),
	}
	w.addFlag(c)
	c.RunE = webhookClient(e, &w, func(ctx context.Context, cl *client.Client, args []string) error {
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Webhook, error) { return cl.Webhook(ctx, args[0]) }, webhookTables)
	})
	return c
}

func webhookTables(w rest.Webhook) []table {
	var t table
	t.addRow("NAME", w.Name)
	t.addRow("ID", w.ID)
	t.addRow("STATE", w.State)
	if w.Reason != "" {
		t.addRow("REASON", w.Reason)
	}
	if w.Failing != 0 {
		t.addRow("FAILING SINCE", showInstant(w.Failing))
	}
	if w.Paused != 0 {
		t.addRow("PAUSED SINCE", showInstant(w.Paused))
	}
	t.addRow("URL", w.URL)
	t.addRow("KINDS", showKinds(w.Kinds))
	t.addRow("DELIVERED", w.Delivered)
	t.addRow("USER", w.User)
	t.addRow("CREATED", showInstant(w.Created))
	t.addRow("UPDATED", showInstant(w.Updated))
	return []table{t}
}

func webhookResume(e *env) *cobra.Command {
	var w whose
	c := &cobra.Command{
		Use: "resume NAME", Short: "End the pause of a webhook", Example: "  berth webhook resume pager", Args: exactArgs("a NAME"),
		Long: `End the pause of a webhook whose deliveries have failed for a day. They go on where they
stopped; an event of kind gap tells of those that the zone does not keep any more.`,
	}
	w.addFlag(c)
	c.RunE = webhookClient(e, &w, func(ctx context.Context, cl *client.Client, args []string) error {
		return showAnswer(ctx, e, func(ctx context.Context) (rest.Webhook, error) { return cl.ResumeWebhook(ctx, args[0]) }, webhookTables)
	})
	return c
}

func webhookDelete(e *env) *cobra.Command {
	var w whose
	var s sure
	c := &cobra.Command{
		Use: "delete NAME", Short: "Delete a webhook", Example: "  berth webhook delete pager --yes", Args: exactArgs("a NAME"),
	}
	w.addFlag(c)
	s.addFlag(c)
	c.RunE = webhookClient(e, &w, func(ctx context.Context, cl *client.Client, args []string) error {
		return e.confirmAndDelete(ctx, s, "delete webhook", args[0], func(ctx context.Context) error { return cl.DeleteWebhook(ctx, args[0]) })
	})
	return c
}
