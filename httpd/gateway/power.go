package gateway

import (
	"net/http"

	"berth/api"
	"berth/httpd/wire"
)

// postPower answers a parent that asks for the run of an instance that it has here, or orders one.
func (d *peerDoor) postPower(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	if err := requireParent(l); err != nil {
		return err
	}
	var q api.PowerCall
	if err := wire.ReadCBOR(r, api.BodyMaxBytes, &q); err != nil {
		return err
	}
	a, err := d.Saga.PowerAbroad(r.Context(), l, &q)
	if err != nil {
		return err
	}
	wire.CBOR(w, r, http.StatusOK, a)
	return nil
}
