package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

func webhookOf(p, name string) api.Webhook {
	return api.Webhook{ID: api.WebhookID(p + "/" + name), Name: name, Project: api.ProjectID(p), URL: "https://example.org/", Secret: []byte{1}}
}

// webhookWorld returns a zone whose nodes read the form of webhooks.
func webhookWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.form = api.FormFourth
	return w
}

func TestWebhooks(t *testing.T) {
	w := webhookWorld(t)
	booted(w, "before")
	put := command.WebhookPut{Stamp: w.stamp(), Webhook: webhookOf("p", "a")}
	put.Webhook.Paused, put.Webhook.Failing, put.Webhook.Told = 5, 6, api.EventID{Index: 99}
	w.ok(put)
	w.unchanged(put)
	other := put
	other.Webhook.ID = "another"
	w.refused(api.CodeExists, other)
	got, ok := w.s.Webhook("p", "a")
	require.True(t, ok)
	assert.Equal(t, api.EventID{Index: 3}, got.Told, "it begins behind what was before it")
	assert.Equal(t, []api.Instant{put.At, put.At, 0, 0}, []api.Instant{got.Created, got.Updated, got.Failing, got.Paused})
	w.ok(command.WebhookPut{Stamp: w.stamp(), Webhook: webhookOf("p2", "a")})
	assert.Len(t, w.s.WebhooksOf("p"), 1)
	assert.Len(t, w.s.Webhooks(), 2)
	text := saved(t, w.s)
	assert.Equal(t, text, saved(t, loaded(t, text)))
	w.refused(api.CodeNotFound, command.WebhookDelete{Stamp: w.stamp(), Project: "p", Name: "b"})
	w.ok(command.WebhookDelete{Stamp: w.stamp(), Project: "p", Name: "a"})
	w.refused(api.CodeNotFound, command.WebhookDelete{Stamp: w.stamp(), Project: "p", Name: "a"})
	w.refused(api.CodeNotFound, command.WebhookResume{Stamp: w.stamp(), Project: "p", Name: "a"})
	assert.Empty(t, w.s.WebhooksOf("p"))
}

func TestWebhookLimits(t *testing.T) {
	w := webhookWorld(t)
	put := func(n int) command.WebhookPut {
		return command.WebhookPut{Stamp: w.stamp(), Webhook: webhookOf(fmt.Sprint("p", n/api.WebhooksProjectMax), fmt.Sprint("w", n))}
	}
	for n := range api.WebhooksProjectMax {
		w.ok(put(n))
	}
	full := put(0)
	full.Webhook = webhookOf("p0", "one-more")
	w.refused(api.CodeOverloaded, full)
	for n := api.WebhooksProjectMax; n < api.WebhooksMax; n++ {
		w.index++
		require.NoError(t, w.s.Apply(w.index, w.reread(put(n))).Err)
	}
	w.refused(api.CodeOverloaded, put(api.WebhooksMax))
	w.ok(command.WebhooksTold{Stamp: w.stamp(), Webhooks: make([]api.WebhookTold, api.WebhooksToldMax)})
	w.refused(api.CodeTooLarge, command.WebhooksTold{Stamp: w.stamp(), Webhooks: make([]api.WebhookTold, api.WebhooksToldMax+1)})
	long := strings.Repeat("x", api.WebhookReasonMaxBytes)
	w.ok(command.WebhooksTold{Stamp: w.stamp(), Webhooks: []api.WebhookTold{{Reason: long}}})
	w.refused(api.CodeTooLarge, command.WebhooksTold{Stamp: w.stamp(), Webhooks: []api.WebhookTold{{Reason: long + "x"}}})
}

// TestDeliveries: how far they are never goes back, and a webhook that fails for a day is
// paused until its owner resumes it.
func TestDeliveries(t *testing.T) {
	w := webhookWorld(t)
	w.ok(command.WebhookPut{Stamp: w.stamp(), Webhook: webhookOf("p", "a")})
	told := func(id string, to api.EventID, reason string) command.WebhooksTold {
		return command.WebhooksTold{Stamp: w.stamp(), Webhooks: []api.WebhookTold{
			{Project: "p", Name: "a", ID: api.WebhookID(id), Told: to, Failed: reason != "", Reason: reason},
		}}
	}
	is := func(want api.Webhook) {
		t.Helper()
		got, _ := w.s.Webhook("p", "a")
		assert.Equal(t, want, api.Webhook{Told: got.Told, Failing: got.Failing, Reason: got.Reason, Paused: got.Paused})
	}
	at := api.EventID{Index: 7, Number: 2}
	w.ok(told("p/a", at, ""))
	is(api.Webhook{Told: at})
	w.unchanged(told("p/a", at, ""))
	w.unchanged(told("p/a", api.EventID{Index: 7, Number: 1}, ""))
	w.unchanged(told("p/a", api.EventID{Index: 8, History: "other"}, ""))
	w.unchanged(told("replaced", api.EventID{Index: 9}, ""))

	w.ok(told("p/a", at, "it is away"))
	since := w.now
	is(api.Webhook{Told: at, Failing: since, Reason: "it is away"})
	w.now = since.Add(api.WebhookFailingMax) - 2
	w.ok(told("p/a", at, "it is gone"))
	is(api.Webhook{Told: at, Failing: since, Reason: "it is gone"})
	w.ok(told("p/a", at, "it is gone"))
	is(api.Webhook{Told: at, Failing: since, Reason: "it is gone", Paused: since.Add(24 * time.Hour)})
	w.unchanged(told("p/a", api.EventID{Index: 9}, ""))
	w.ok(command.WebhookResume{Stamp: w.stamp(), Project: "p", Name: "a"})
	is(api.Webhook{Told: at})
	w.unchanged(command.WebhookResume{Stamp: w.stamp(), Project: "p", Name: "a"})
	w.ok(told("p/a", at, "again"))
	w.ok(told("p/a", api.EventID{Index: 8, Number: 1}, ""))
	is(api.Webhook{Told: api.EventID{Index: 8, Number: 1}})
}

// TestWebhooksInABackup go on from the restore.
func TestWebhooksInABackup(t *testing.T) {
	w := webhookWorld(t)
	w.ok(command.WebhookPut{Stamp: w.stamp(), Webhook: webhookOf("p", "a")})
	for _, c := range w.parts(saved(t, w.s), 1) {
		w.ok(w.part(c))
	}
	booted(w, "r1")
	hook, _ := w.s.Webhook("p", "a")
	list, whole := w.s.Events(hook.Told, 9)
	assert.False(t, whole)
	require.Len(t, list, 1)
	to := w.s.EventID(list[0])
	w.ok(command.WebhooksTold{Stamp: w.stamp(), Webhooks: []api.WebhookTold{{Project: "p", Name: "a", ID: "p/a", Told: to}}})
	hook, _ = w.s.Webhook("p", "a")
	assert.Equal(t, to, hook.Told, "although its index may be lower in another log")
}
