package rest

import "berth/api"

// WebhookBody is the body of a call that creates a webhook.
type WebhookBody struct {
	Webhook WebhookSpec `json:"webhook"`
}

// WebhookSpec is a webhook to create.
type WebhookSpec struct {
	Name   string   `json:"name"`             // unique in the project
	URL    string   `json:"url"`              // https://; http:// only for loopback addresses that the operator allows
	Secret string   `json:"secret,omitempty"` // signs deliveries, 16 to 128 characters (default: a random one)
	Kinds  []string `json:"kinds,omitempty"`  // of events, or beginnings of kinds such as boot (default: all)
}

// Webhook is an address to which the zone sends the events of a project.
type Webhook struct {
	ID        api.WebhookID `json:"id"`
	Name      string        `json:"name"`
	Project   api.ProjectID `json:"project_id"`
	User      api.UserID    `json:"user_id"`
	URL       string        `json:"url"`
	Kinds     []string      `json:"kinds"`                  // empty for all
	State     string        `json:"state"`                  // active, failing, or paused: then nothing is sent until it is resumed
	Reason    string        `json:"reason,omitempty"`       // why the last delivery failed
	Failing   api.Instant   `json:"failing_since,omitzero"` // absent unless deliveries fail
	Paused    api.Instant   `json:"paused_since,omitzero"`  // absent unless it is paused
	Delivered string        `json:"delivered"`              // id of an event: all up to it have been delivered, as far as they are for this webhook
	Created   api.Instant   `json:"created"`
	Updated   api.Instant   `json:"updated"`
}

// WebhookCreated is a new webhook with its secret, which is returned only here.
type WebhookCreated struct {
	ID     api.WebhookID `json:"id"`
	Name   string        `json:"name"`
	Secret string        `json:"secret"`
}

// The states of a webhook.
const (
	WebhookActive  = "active"
	WebhookFailing = "failing"
	WebhookPaused  = "paused"
)

// WebhookOf returns the body of a webhook.
func WebhookOf(w *api.Webhook) Webhook {
	return Webhook{
		ID: w.ID, Name: w.Name, Project: w.Project, User: w.User, URL: w.URL, Kinds: append([]string{}, w.Kinds...), State: WebhookState(w),
		Reason: w.Reason, Failing: w.Failing, Paused: w.Paused, Delivered: w.Told.String(), Created: w.Created, Updated: w.Updated,
	}
}

// WebhookState returns the state of a webhook.
func WebhookState(w *api.Webhook) string {
	switch {
	case w.Paused != 0:
		return WebhookPaused
	case w.Failing != 0:
		return WebhookFailing
	}
	return WebhookActive
}
