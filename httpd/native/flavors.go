package native

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/wire"
	"berth/zone/intake"
)

func (d *dialect) listFlavors(w http.ResponseWriter, r *http.Request) error {
	page, next, err := pageOf(r, d.View(w).Flavors(), func(f *api.Flavor) string { return string(f.ID) })
	if err != nil {
		return err
	}
	return answerList(w, "flavors", viewsOf(page, rest.FlavorOf), next)
}

func (d *dialect) showFlavor(w http.ResponseWriter, r *http.Request) error {
	return d.answerFlavor(w, http.StatusOK, api.FlavorID(chi.URLParam(r, "id")))
}

func (d *dialect) answerFlavor(w http.ResponseWriter, status int, id api.FlavorID) error {
	f, err := intake.Flavor(d.View(w), id)
	if err != nil {
		return err
	}
	return answerOne(w, status, "flavor", rest.FlavorOf(f))
}

func (d *dialect) createFlavor(w http.ResponseWriter, r *http.Request) error {
	var b rest.FlavorBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	id, err := intake.CreateFlavor(r.Context(), d.Zone, b.Flavor)
	if err != nil {
		return err
	}
	return d.answerFlavor(w, http.StatusCreated, id)
}

func (d *dialect) updateFlavor(w http.ResponseWriter, r *http.Request) error {
	var b rest.FlavorBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	id := api.FlavorID(chi.URLParam(r, "id"))
	if err := intake.ReplaceFlavor(r.Context(), d.Zone, id, b.Flavor); err != nil {
		return err
	}
	return d.answerFlavor(w, http.StatusOK, id)
}

func (d *dialect) deleteFlavor(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, intake.DeleteFlavor(r.Context(), d.Zone, api.FlavorID(chi.URLParam(r, "id"))))
}
