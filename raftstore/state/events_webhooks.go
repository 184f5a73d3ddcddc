package state

import (
	"berth/api"
	"berth/raftstore/command"
)

func (s *eventsBook) webhookPut(c command.WebhookPut) Result {
	w := c.Webhook
	if old, ok := s.webhooks.Get(joinKey(w.Project, w.Name)); ok {
		if old.ID == w.ID {
			return Result{} // a repeat
		}
		return refuseWith(api.CodeExists, "the project has a webhook named %q", w.Name)
	}
	switch n := len(s.WebhooksOf(w.Project)); {
	case n >= s.limits.webhooksProject:
		return refuseWith(api.CodeOverloaded, "the project has %d webhooks, which is the limit", n)
	case s.webhooks.Len() >= s.limits.webhooks:
		return refuseWith(api.CodeOverloaded, "the zone has %d webhooks, which is the limit", s.webhooks.Len())
	}
	w.Created, w.Updated, w.Told = c.At, c.At, s.EventsEnd()
	w.Failing, w.Reason, w.Paused = 0, "", 0
	s.setWebhook(&w)
	return Result{}
}

func (s *eventsBook) webhookDelete(c command.WebhookDelete) Result {
	if _, ok := s.webhooks.Delete(joinKey(c.Project, c.Name)); !ok {
		return noWebhook(c.Name)
	}
	s.touchTopic(WebhooksTopic())
	return Result{}
}

func (s *eventsBook) webhookResume(c command.WebhookResume) Result {
	old, ok := s.webhooks.Get(joinKey(c.Project, c.Name))
	if !ok {
		return noWebhook(c.Name)
	}
	if old.Paused == 0 {
		return Result{}
	}
	w := *old
	w.Paused, w.Failing, w.Reason, w.Updated = 0, 0, "", c.At
	s.setWebhook(&w)
	return Result{}
}

// noWebhook is the refusal for a name that a project has not given.
func noWebhook(name string) Result {
	return refuseWith(api.CodeNotFound, "the project has no webhook %q", name)
}

// webhooksTold records how far deliveries are. It never takes one back, and pauses those
// that have failed for too long.
func (s *eventsBook) webhooksTold(c command.WebhooksTold) Result {
	if len(c.Webhooks) > s.limits.webhooks {
		return refuseWith(api.CodeTooLarge, "%d webhooks in one command; at most %d are allowed", len(c.Webhooks), s.limits.webhooks)
	}
	for _, t := range c.Webhooks {
		if len(t.Reason) > s.limits.faultBytes {
			return refuseWith(api.CodeTooLarge, "the reason has %d bytes; at most %d are allowed", len(t.Reason), s.limits.faultBytes)
		}
	}
	for _, t := range c.Webhooks {
		old, ok := s.webhooks.Get(joinKey(t.Project, t.Name))
		if !ok || old.ID != t.ID || old.Paused != 0 {
			continue
		}
		w := *old
		if t.Told.History == s.historyName() && (t.Told.History != w.Told.History || t.Told.After(w.Told)) {
			w.Told = t.Told
		}
		s.noteDelivery(&w, t)
		if w.Told != old.Told || w.Failing != old.Failing || w.Reason != old.Reason || w.Paused != old.Paused {
			w.Updated = s.now
			s.setWebhook(&w)
		}
	}
	return Result{}
}

// noteDelivery records whether deliveries to w succeed.
func (s *eventsBook) noteDelivery(w *api.Webhook, t api.WebhookTold) {
	if !t.Failed {
		w.Failing, w.Reason = 0, ""
		return
	}
	w.Reason = t.Reason
	if w.Failing == 0 {
		w.Failing = s.now
	}
	if s.now >= w.Failing.Add(s.limits.webhookFailing) {
		w.Paused = s.now
	}
}

func (s *eventsBook) setWebhook(w *api.Webhook) {
	s.webhooks.Set(joinKey(w.Project, w.Name), w)
	s.touchTopic(WebhooksTopic())
}

// rewrapWebhooks replaces the wrapped secrets of webhooks.
func (s *eventsBook) rewrapWebhooks(renewed map[string][]byte) {
	for _, old := range s.Webhooks() {
		w := *old
		w.Secret = renewed[string(old.Secret)]
		s.setWebhook(&w)
	}
}

// Webhooks returns all webhooks of the zone, by project and name.
func (s *eventsBook) Webhooks() []*api.Webhook { return s.webhooks.Values() }

// Webhook returns one webhook of a project.
func (s *eventsBook) Webhook(p api.ProjectID, name string) (*api.Webhook, bool) {
	return s.webhooks.Get(joinKey(p, name))
}

// WebhooksOf returns the webhooks of a project, by name.
func (s *eventsBook) WebhooksOf(p api.ProjectID) []*api.Webhook {
	var out []*api.Webhook
	eachRecordUnder(s.webhooks, joinKey(p, ""), func(_ string, w *api.Webhook) { out = append(out, w) })
	return out
}
