package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
)

// traitNames completes the name of a trait.
var traitNames = names(func(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	return c.Traits(ctx, client.TraitQuery{})
})

// classNames completes the name of a resource class.
var classNames = names(func(ctx context.Context, c *client.Client, _ string) ([]string, error) {
	classes, err := c.ResourceClasses(ctx)
	out := make([]string, 0, len(classes))
	for _, class := range classes {
		out = append(out, string(class))
	}
	return out, err
})

func resourceClassCommand(e *env) *cobra.Command {
	c := nounCommand("resource-class", "See, create and delete resource classes (admins)",
		&cobra.Command{
			Use:     "list",
			Short:   "List resource classes",
			Example: "  berth resource-class list",
			Args:    exactArgs(),
			RunE: e.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
				return listAll(ctx, e, "resource_classes", onePage(c.ResourceClasses), tableOf("NAME", func(n api.ResourceClass) []any { return []any{n} }))
			}),
		},
		vocabularyCreate(e, "resource class", "berth resource-class create CUSTOM_LICENSE", func(ctx context.Context, c *client.Client, name string) error {
			return c.CreateResourceClass(ctx, api.ResourceClass(name))
		}),
		vocabularyDelete(e, "resource class", "berth resource-class delete CUSTOM_LICENSE --yes", classNames,
			"remove it from each provider with: berth provider inventory unset PROVIDER %[1]s; list those with some free with: berth provider list --resources %[1]s=1", func(ctx context.Context, c *client.Client, name string) error {
				return c.DeleteResourceClass(ctx, api.ResourceClass(name))
			}),
	)
	c.Aliases = []string{"resource-classes"}
	return c
}

func traitCommand(e *env) *cobra.Command {
	c := nounCommand("trait", "See, create and delete traits of providers (admins)",
		traitList(e),
		vocabularyCreate(e, "trait", "berth trait create CUSTOM_SSD", func(ctx context.Context, c *client.Client, name string) error {
			return c.CreateTrait(ctx, name)
		}),
		vocabularyDelete(e, "trait", "berth trait delete CUSTOM_SSD --yes", traitNames,
			"list the providers that have it with: berth provider list --required %[1]s", func(ctx context.Context, c *client.Client, name string) error {
				return c.DeleteTrait(ctx, name)
			}),
	)
	c.Aliases = []string{"traits"}
	return c
}

func traitList(e *env) *cobra.Command {
	var q client.TraitQuery
	var used bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List traits",
		Example: "  berth trait list --prefix CUSTOM_\n  berth trait list --used",
		Args:    exactArgs(),
	}
	c.Flags().StringVar(&q.Prefix, "prefix", "", "only traits that start with this text")
	c.Flags().BoolVar(&used, "used", false, "only traits that some provider has; --used=false for those that none has")
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		if c.Flags().Changed("used") {
			q.Associated = &used
		}
		get := func(ctx context.Context) ([]string, error) { return cl.Traits(ctx, q) }
		return listAll(ctx, e, "traits", onePage(get), tableOf("NAME", func(n string) []any { return []any{n} }))
	})
	return c
}

// vocabularyCreate returns a verb that creates a custom name.
func vocabularyCreate(e *env, what, example string, create func(context.Context, *client.Client, string) error) *cobra.Command {
	return &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a " + what + "; an existing one stays as it is",
		Long:    "Create a " + what + "; an existing one stays as it is. Its name is CUSTOM_ followed by upper\ncase letters, digits and _.",
		Example: "  " + example,
		Args:    exactArgs("a NAME"),
		RunE: e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if !api.ValidCustom(args[0]) {
				return exitError(exitUsage, "see: berth help "+strings.ReplaceAll(what, " ", "-")+" create",
					"the name of a %s must be CUSTOM_ followed by upper case letters, digits and _, at most %d in all, got %q", what, api.CustomMaxBytes, shorten(args[0]))
			}
			answered := e.noteWaiting()
			err := create(ctx, c, args[0])
			answered()
			if err == nil {
				e.printNote("done: create %s %q", what, args[0])
			}
			return err
		}),
	}
}

// vocabularyDelete returns a verb that deletes a custom name.
func vocabularyDelete(
	e *env, what, example string, n names, hint string, remove func(context.Context, *client.Client, string) error,
) *cobra.Command {
	var s sure
	c := &cobra.Command{
		Use:               "delete NAME",
		Short:             "Delete a " + what + " that no provider has",
		Example:           "  " + example,
		Args:              exactArgs("a NAME"),
		ValidArgsFunction: e.completeFirst(n),
	}
	s.addFlag(c)
	c.RunE = e.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		err := e.confirmAndDelete(ctx, s, "delete "+what, args[0], func(ctx context.Context) error { return remove(ctx, c, args[0]) })
		if api.CodeOf(err) == api.CodeInUse {
			return withHint(err, fmt.Sprintf(hint, args[0]))
		}
		return err
	})
	return c
}
