package native

import (
	"net/http"

	"berth/api"
	"berth/httpd/door"
)

// orderPower returns the handler that gives a server an order, and answers with the server.
func orderPower(o api.PowerOrder) func(d *dialect, w http.ResponseWriter, r *http.Request) error {
	return func(d *dialect, w http.ResponseWriter, r *http.Request) error {
		i, err := visibleInstance(d.Zone.View(), r)
		if err != nil {
			return err
		}
		if err := d.Saga.OrderPower(r.Context(), i.Tenant(), i.ID, o); err != nil {
			return err
		}
		v := d.View(w)
		if now, ok := v.Instance(i.ID); ok {
			i = now
		}
		return answerOne(w, http.StatusAccepted, "server", d.serverView(v, i, door.Caller(r)))
	}
}
