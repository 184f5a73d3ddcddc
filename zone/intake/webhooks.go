package intake

import (
	"context"
	"unicode/utf8"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/webhook"
	"berth/zone"
	"berth/zone/events"
)

// Webhook returns the webhook that a caller wants for a project, without id and secret, and
// the text of its secret.
func Webhook(z *zone.Zone, c api.Caller, p api.ProjectID, s rest.WebhookSpec) (w api.Webhook, secret string, err error) {
	if err = api.CheckName("name", s.Name); err != nil {
		return w, "", err
	}
	allowed, err := webhook.ParseNetworks(z.View().Config.WebhookNetworks)
	if err == nil {
		err = allowed.CheckURL(s.URL)
	}
	if err == nil {
		err = checkNamed("kinds", s.Kinds, "events of all kinds")
	}
	if err == nil {
		err = events.CheckKinds(s.Kinds)
	}
	if err != nil {
		return w, "", err
	}
	switch n := utf8.RuneCountInString(s.Secret); {
	case s.Secret == "":
		s.Secret = webhook.NewSecret()
	case len(s.Secret) < api.WebhookSecretMinBytes || len(s.Secret) > api.WebhookSecretMaxBytes || n != len(s.Secret):
		return w, "", api.Errorf(api.CodeInvalid, "secret must be %d to %d characters of ASCII; leave it out for a random one",
			api.WebhookSecretMinBytes, api.WebhookSecretMaxBytes)
	}
	return api.Webhook{Name: s.Name, Project: p, User: c.User, URL: s.URL, Kinds: s.Kinds}, s.Secret, nil
}

// FindWebhook returns a webhook of a project.
func FindWebhook(v *state.State, p api.ProjectID, name string) (*api.Webhook, error) {
	if w, ok := v.Webhook(p, name); ok {
		return w, nil
	}
	return nil, api.Errorf(api.CodeNotFound, "no such webhook")
}

// DeleteWebhook deletes a webhook of a project.
func DeleteWebhook(ctx context.Context, z *zone.Zone, p api.ProjectID, name string) error {
	return changeWebhook(ctx, z, p, name, command.WebhookDelete{Stamp: z.Stamp(), Project: p, Name: name})
}

// ResumeWebhook ends the pause of a webhook of a project.
func ResumeWebhook(ctx context.Context, z *zone.Zone, p api.ProjectID, name string) error {
	return changeWebhook(ctx, z, p, name, command.WebhookResume{Stamp: z.Stamp(), Project: p, Name: name})
}

// changeWebhook proposes a change of a webhook that is there.
func changeWebhook(ctx context.Context, z *zone.Zone, p api.ProjectID, name string, c command.Command) error {
	_, err := z.Change(ctx, c, func(v *state.State) error { _, err := FindWebhook(v, p, name); return err })
	return err
}
