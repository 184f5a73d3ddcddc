package federation

import (
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/identity"
)

// inPEM returns an authority as an operator brings it.
func inPEM(t *testing.T, ca *identity.CA) rest.CABrought {
	t.Helper()
	key, err := ca.KeyDER()
	require.NoError(t, err)
	return rest.CABrought{
		Cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.CertDER()})),
		Key:  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
	}
}

// TestABroughtAuthority follows the zone's own, and one of another zone, of a key that the zone has, or without its own key
// changes nothing.
func TestABroughtAuthority(t *testing.T) {
	t.Parallel()
	p := newWorld(t).addOfForm("p", nil, api.FormFifth)
	p.reports("node-1")
	made := func(z api.ZoneID) *identity.CA {
		ca, err := identity.NewCA(z, p.now())
		require.NoError(t, err)
		return ca
	}
	old, err := p.keys.zoneAuthority(p.view())
	require.NoError(t, err)
	own := inPEM(t, made(p.id))
	for want, bad := range map[string]rest.CABrought{
		"is of zone zone-x": inPEM(t, made("zone-x")), "has the key of one": inPEM(t, old), "private key does not match": {Cert: own.Cert, Key: inPEM(t, old).Key},
		"must have 1 to 8": {Key: own.Key}, "failed to find any PEM data": {Cert: own.Cert},
	} {
		before := p.view().Index()
		err := p.RotateCA(t.Context(), bad)
		refusedAs(t, api.CodeInvalid, err)
		assert.ErrorContains(t, err, want)
		assert.Equal(t, before, p.view().Index(), want)
	}
	require.NoError(t, p.RotateCA(t.Context(), own))
	p.reports("node-1")
	p.setForward(-2 * time.Hour)
	refusedAs(t, api.CodeConflict, p.UseCA(t.Context(), true))
	p.setForward(2 * time.Hour)
	require.NoError(t, p.UseCA(t.Context(), false))
	now, err := p.keys.zoneAuthority(p.view())
	require.NoError(t, err)
	assert.Equal(t, own, inPEM(t, now), "the zone signs with it")
}
