package model

import (
	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// WebhookName names a webhook.
type WebhookName struct {
	Project api.ProjectID
	Name    string
}

// Webhook is a webhook. Told is not computed: it depends on events, which the model does not
// have. It never goes back within one history.
type Webhook struct {
	ID              api.WebhookID
	Failing, Paused api.Instant
	Reason          string
	Told            api.EventID
}

func (m *Model) applyEvents(c command.ForEvents) *Refusal {
	switch c := c.(type) {
	case command.WebhookPut:
		return m.webhookPut(c)
	case command.WebhookDelete:
		return m.withWebhook(c.Project, c.Name, func(name WebhookName, _ *Webhook) { delete(m.Webhooks, name) })
	case command.WebhookResume:
		return m.withWebhook(c.Project, c.Name, func(_ WebhookName, w *Webhook) {
			if w.Paused != 0 {
				w.Paused, w.Failing, w.Reason = 0, 0, ""
			}
		})
	case command.WebhooksTold:
		return m.webhooksTold(c)
	}
	return nil
}

func (m *Model) withWebhook(p api.ProjectID, name string, change func(WebhookName, *Webhook)) *Refusal {
	n := WebhookName{p, name}
	w, ok := m.Webhooks[n]
	if !ok {
		return &Refusal{promise.Model, "the project has no webhook " + name}
	}
	change(n, w)
	return nil
}

func (m *Model) webhookPut(c command.WebhookPut) *Refusal {
	name := WebhookName{c.Webhook.Project, c.Webhook.Name}
	if old, ok := m.Webhooks[name]; ok {
		if old.ID != c.Webhook.ID {
			return &Refusal{promise.Model, "the project has another webhook " + name.Name}
		}
		return nil
	}
	ofProject := 0
	for n := range m.Webhooks {
		if n.Project == name.Project {
			ofProject++
		}
	}
	if ofProject >= api.WebhooksProjectMax || len(m.Webhooks) >= api.WebhooksMax {
		return &Refusal{promise.Model, "there are too many webhooks"}
	}
	m.Webhooks[name] = &Webhook{ID: c.Webhook.ID}
	return nil
}

func (m *Model) webhooksTold(c command.WebhooksTold) *Refusal {
	if len(c.Webhooks) > api.WebhooksToldMax {
		return &Refusal{promise.Model, "there are too many webhooks in one command"}
	}
	for _, t := range c.Webhooks {
		if len(t.Reason) > api.WebhookReasonMaxBytes {
			return &Refusal{promise.Model, "the reason is too long"}
		}
	}
	for _, t := range c.Webhooks {
		w, ok := m.Webhooks[WebhookName{t.Project, t.Name}]
		switch {
		case !ok || w.ID != t.ID || w.Paused != 0:
		case !t.Failed:
			w.Failing, w.Reason = 0, ""
		default:
			if w.Reason = t.Reason; w.Failing == 0 {
				w.Failing = m.Now
			}
			if m.Now-w.Failing >= api.Instant(api.WebhookFailingMax.Milliseconds()) {
				w.Paused = m.Now
			}
		}
	}
	return nil
}
