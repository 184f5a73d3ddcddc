package federation

import (
	"context"
	"fmt"

	"berth/api"
	"berth/raftstore/command"
)

// labelWebhook binds the secret of a webhook to its use, together with the webhook's id.
const labelWebhook = "berth/webhook/"

// NewWebhook makes a webhook with a secret, which is stored wrapped, and returns its id. A
// project has one webhook of a name: a repeat after a timeout is refused with CodeExists.
func (f *Federation) NewWebhook(ctx context.Context, w api.Webhook, secret string) (api.WebhookID, error) {
	w.ID = api.WebhookID(api.NewUUID())
	var err error
	if w.Secret, err = f.keys.wrap(f.view(), labelWebhook+string(w.ID), []byte(secret)); err != nil {
		return "", err
	}
	_, err = f.zone.Propose(ctx, command.WebhookPut{Stamp: f.zone.Stamp(), Webhook: w})
	return w.ID, err
}

// WebhookSecret returns the secret of a webhook.
func (k *Keys) WebhookSecret(w *api.Webhook) (string, error) {
	plain, err := k.unwrap(labelWebhook+string(w.ID), w.Secret)
	if err != nil {
		return "", fmt.Errorf("opening the secret of webhook %s: is kek of another zone? %w", w.ID, err)
	}
	return string(plain), nil
}

// labelLeaseCheck binds the token of the external service of leases to its use, together with
// the address that it is for.
const labelLeaseCheck = "berth/lease-check/"

// WrapLeaseToken wraps the token that an external service of leases is shown at an address.
func (f *Federation) WrapLeaseToken(url, token string) ([]byte, error) {
	return f.keys.wrap(f.view(), labelLeaseCheck+url, []byte(token))
}

// LeaseToken returns the token of an external service of leases, "" for none.
func (k *Keys) LeaseToken(c *api.LeaseCheck) (string, error) {
	if len(c.Token) == 0 {
		return "", nil
	}
	plain, err := k.unwrap(labelLeaseCheck+c.URL, c.Token)
	if err != nil {
		return "", fmt.Errorf("opening the token of the external service of leases: is kek of another zone? %w", err)
	}
	return string(plain), nil
}
