package api

import "time"

// Limits of webhooks.
const (
	WebhooksMax            = 1_000          // webhooks of one zone
	WebhooksProjectMax     = 10             // webhooks of one project
	WebhookKindsMax        = 32             // kinds of events that one webhook names
	WebhookURLMaxBytes     = 2_048          // of its address
	WebhookSecretMinBytes  = 16             // of a secret that the caller chooses
	WebhookSecretMaxBytes  = 128            // of a secret that the caller chooses
	WebhookNetworksMax     = 64             // inner networks that webhooks may reach
	WebhookReasonMaxBytes  = FaultMaxBytes  // of the reason why deliveries fail
	WebhookFailingMax      = 24 * time.Hour // how long deliveries may fail before a webhook is paused
	WebhooksToldMax        = WebhooksMax    // webhooks in one command
	WebhookTimeout         = 10 * time.Second
	WebhookAnswerMaxBytes  = 64 << 10 // read of an answer, which is ignored
	WebhookSignatureMaxAge = 5 * time.Minute
)

// WebhookID names a webhook; a random UUID.
type WebhookID string

// Webhook is an address to which a zone sends the events of one project.
type Webhook struct {
	ID      WebhookID `cbor:"1,keyasint"`
	Name    string    `cbor:"2,keyasint"` // unique in the project
	Project ProjectID `cbor:"3,keyasint" log:"project_id"`
	User    UserID    `cbor:"4,keyasint,omitempty" log:"user_id"`
	URL     string    `cbor:"5,keyasint"`
	Secret  []byte    `cbor:"6,keyasint"`           // wrapped by the key-encryption key
	Kinds   []string  `cbor:"7,keyasint,omitempty"` // of events, or beginnings of kinds; empty for all
	Created Instant   `cbor:"8,keyasint"`
	Updated Instant   `cbor:"9,keyasint"`

	Told    EventID `cbor:"10,keyasint"`           // delivered, or not for this webhook, up to here
	Failing Instant `cbor:"11,keyasint,omitzero"`  // since when deliveries fail; 0 if the last one succeeded
	Reason  string  `cbor:"12,keyasint,omitempty"` // why the last one failed
	Paused  Instant `cbor:"13,keyasint,omitzero"`  // since when nothing is sent, until its owner resumes it; 0 if it is active
}

// WebhookTold is how far the deliveries to one webhook are.
type WebhookTold struct {
	Project ProjectID `cbor:"1,keyasint" log:"project_id"`
	Name    string    `cbor:"2,keyasint"`
	ID      WebhookID `cbor:"3,keyasint"` // a webhook that has been replaced under its name is left as it is
	Told    EventID   `cbor:"4,keyasint"`
	Failed  bool      `cbor:"5,keyasint,omitempty"` // the delivery of what follows fails
	Reason  string    `cbor:"6,keyasint,omitempty"`
}
