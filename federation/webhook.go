package federation

import (
	"context"
	"fmt"

	"berth/api"
	"berth/buildplan/seal"
	"berth/raftstore/command"
)

// labelWebhook binds the secret of a webhook to its use, together with the webhook's id.
const labelWebhook = "berth/webhook/"

// NewWebhook makes a webhook with a secret, which is stored wrapped, and returns its id. A
// project has one webhook of a name: a repeat after a timeout is refused with CodeExists.
func (f *Federation) NewWebhook(ctx context.Context, w api.Webhook, secret string) (api.WebhookID, error) {
	w.ID = api.WebhookID(api.NewUUID())
	w.Secret = seal.Wrap(f.keys.kek, labelWebhook+string(w.ID), []byte(secret), newNonce())
	_, err := f.zone.Propose(ctx, command.WebhookPut{Stamp: f.zone.Stamp(), Webhook: w})
	return w.ID, err
}

// WebhookSecret returns the secret of a webhook.
func (k *Keys) WebhookSecret(w *api.Webhook) (string, error) {
	plain, err := seal.Unwrap(k.kek, labelWebhook+string(w.ID), w.Secret)
	if err != nil {
		return "", fmt.Errorf("opening the secret of webhook %s: is kek of another zone? %w", w.ID, err)
	}
	return string(plain), nil
}
