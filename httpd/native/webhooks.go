package native

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/zone/intake"
)

func (d *dialect) createWebhook(w http.ResponseWriter, r *http.Request) error {
	var b rest.WebhookBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	hook, secret, err := intake.Webhook(d.Zone, door.Caller(r), project, b.Webhook)
	if err != nil {
		return err
	}
	id, err := d.Authority.NewWebhook(r.Context(), hook, secret)
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusCreated, "webhook", rest.WebhookCreated{ID: id, Name: hook.Name, Secret: secret})
}

func (d *dialect) listWebhooks(w http.ResponseWriter, r *http.Request) error {
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	all, err := everyProject(r)
	if err != nil {
		return err
	}
	v := d.View(w)
	hooks := v.WebhooksOf(project)
	if all {
		hooks = v.Webhooks()
	}
	return answerList(w, "webhooks", viewsOf(hooks, rest.WebhookOf), "")
}

func (d *dialect) showWebhook(w http.ResponseWriter, r *http.Request) error {
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	hook, err := intake.FindWebhook(d.View(w), project, chi.URLParam(r, "id"))
	if err != nil {
		return err
	}
	return answerOne(w, http.StatusOK, "webhook", rest.WebhookOf(hook))
}

func (d *dialect) deleteWebhook(w http.ResponseWriter, r *http.Request) error {
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	return noContent(w, intake.DeleteWebhook(r.Context(), d.Zone, project, chi.URLParam(r, "id")))
}

func (d *dialect) resumeWebhook(w http.ResponseWriter, r *http.Request) error {
	project, err := projectOf(r)
	if err != nil {
		return err
	}
	if err := intake.ResumeWebhook(r.Context(), d.Zone, project, chi.URLParam(r, "id")); err != nil {
		return err
	}
	return d.showWebhook(w, r)
}
