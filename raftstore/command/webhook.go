package command

import "berth/api"

// WebhookPut adds a webhook. Its deliveries begin with the events after this entry.
type WebhookPut struct {
	Stamp
	Webhook api.Webhook `cbor:"2,keyasint"`
}

// WebhookDelete deletes a webhook.
type WebhookDelete struct {
	Stamp
	Project api.ProjectID `cbor:"2,keyasint" log:"project_id"`
	Name    string        `cbor:"3,keyasint"`
}

// WebhookResume ends the pause of a webhook: deliveries go on where they stopped.
type WebhookResume struct {
	Stamp
	Project api.ProjectID `cbor:"2,keyasint" log:"project_id"`
	Name    string        `cbor:"3,keyasint"`
}

// WebhooksTold records how far the deliveries to webhooks are.
type WebhooksTold struct {
	Stamp
	Webhooks []api.WebhookTold `cbor:"2,keyasint"`
}

// Kind implements Command.
func (WebhookPut) Kind() Kind { return KindWebhookPut }

// Kind implements Command.
func (WebhookDelete) Kind() Kind { return KindWebhookDelete }

// Kind implements Command.
func (WebhookResume) Kind() Kind { return KindWebhookResume }

// Kind implements Command.
func (WebhooksTold) Kind() Kind { return KindWebhooksTold }
