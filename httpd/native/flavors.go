package native

import (
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
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
	if err := d.mayCommand(r, "", b.Flavor.Command); err != nil {
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
	if err := d.mayCommand(r, id, b.Flavor.Command); err != nil {
		return err
	}
	if err := intake.ReplaceFlavor(r.Context(), d.Zone, id, b.Flavor); err != nil {
		return err
	}
	return d.answerFlavor(w, http.StatusOK, id)
}

// mayCommand refuses a command that the caller must not set for a flavor: others than admins leave the one that it has, or none.
func (d *dialect) mayCommand(r *http.Request, id api.FlavorID, words []string) error {
	if f, known := d.Zone.View().Flavor(id); len(words) == 0 || known && slices.Equal(f.Command, words) {
		return nil
	}
	return needAdmin(r, "to set the command of a flavor, which runs on hosts")
}

// needAdmin refuses a part of a call that only admins may make; see rest.Route.Admin.
func needAdmin(r *http.Request, what string) error {
	if c := door.Caller(r); !c.Allows(api.RoleAdmin) {
		return api.Errorf(api.CodeForbidden, "%s needs the role %s, whatever other roles allow", what, api.RoleAdmin)
	}
	return nil
}

func (d *dialect) deleteFlavor(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, intake.DeleteFlavor(r.Context(), d.Zone, api.FlavorID(chi.URLParam(r, "id"))))
}
