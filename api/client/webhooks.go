package client

import (
	"context"

	"berth/api/rest"
)

// Webhooks returns the webhooks of the caller's project, or of that of InProject. It may be
// repeated.
func (c *Client) Webhooks(ctx context.Context) ([]rest.Webhook, error) {
	q := routeCall("client.Webhooks", "GET /webhooks")
	q.query = c.whoseQuery()
	return callAll[rest.Webhook](ctx, c, q)
}

// AllWebhooks returns the webhooks of all projects, by project and name. It may be repeated. Admins only.
func (c *Client) AllWebhooks(ctx context.Context) ([]rest.Webhook, error) {
	q := routeCall("client.AllWebhooks", "GET /webhooks")
	q.query = queryOf(map[string]string{"all_projects": "true"})
	return callAll[rest.Webhook](ctx, c, q)
}

// Webhook returns one webhook of the project. It may be repeated.
func (c *Client) Webhook(ctx context.Context, name string) (rest.Webhook, error) {
	q := routeCall("client.Webhook", "GET /webhooks/{id}", name)
	q.query = c.whoseQuery()
	return callValue[rest.Webhook](ctx, c, q)
}

// CreateWebhook creates a webhook of the project and returns its secret. It is not repeated:
// a second call gets CodeExists, and no secret.
func (c *Client) CreateWebhook(ctx context.Context, s rest.WebhookSpec) (rest.WebhookCreated, error) {
	q := routeCall("client.CreateWebhook", "POST /webhooks").withBody(rest.WebhookBody{Webhook: s})
	q.query = c.whoseQuery()
	return callValue[rest.WebhookCreated](ctx, c, q)
}

// DeleteWebhook deletes a webhook of the project. It may be repeated.
func (c *Client) DeleteWebhook(ctx context.Context, name string) error {
	q := deleteCall("client.DeleteWebhook", "DELETE /webhooks/{id}", name)
	q.query = c.whoseQuery()
	return c.callNothing(ctx, q)
}

// ResumeWebhook ends the pause of a webhook of the project. It may be repeated.
func (c *Client) ResumeWebhook(ctx context.Context, name string) (rest.Webhook, error) {
	q := routeCall("client.ResumeWebhook", "POST /webhooks/{id}/resume", name).withRepeat(true)
	q.query = c.whoseQuery()
	return callValue[rest.Webhook](ctx, c, q)
}
