package gateway

import (
	"net/http"

	"berth/api"
	"berth/httpd/wire"
)

// readOutput returns to a parent what an instance that was made for it has printed.
func (d *peerDoor) readOutput(w http.ResponseWriter, r *http.Request, l *api.Link) error {
	if err := requireParent(l); err != nil {
		return err
	}
	ctx, err := withDepth(r)
	if err != nil {
		return err
	}
	var q api.OutputQuestion
	if err = wire.ReadCBOR(r, api.BodyMaxBytes, &q); err != nil {
		return err
	}
	a, err := d.Outputs.ReadAbroad(ctx, l, &q)
	if err != nil {
		return err
	}
	wire.CBOR(w, r, http.StatusOK, a)
	return nil
}
