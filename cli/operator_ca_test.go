package cli

import (
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/rest"
	"berth/identity"
)

// TestABroughtAuthorityIsCheckedBeforeItIsSent: a key goes nowhere with a certificate that no zone takes.
func TestABroughtAuthorityIsCheckedBeforeItIsSent(t *testing.T) {
	z := newFakeZone(t)
	ca, err := identity.NewCA("zone-a", time.Now())
	require.NoError(t, err)
	der, err := ca.KeyDER()
	require.NoError(t, err)
	cert, key := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "key.pem")
	certPEM, keyPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.CertDER()}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	require.NoError(t, os.WriteFile(cert, certPEM, 0o644))
	require.NoError(t, os.WriteFile(key, keyPEM, 0o600))
	for _, files := range [][2]string{{otherCA(t), key}, {cert, cert}, {cert, ""}, {"", key}, {cert, "/nowhere"}} {
		r := z.berth(t.Context(), "operator", "ca", "rotate", "--ca-cert", files[0], "--ca-key", files[1])
		assert.Equal(t, exitUsage, r.exit, r.errOut)
		assert.Empty(t, z.asked("POST /operator/ca"))
	}
	r := z.berth(t.Context(), "operator", "ca", "rotate", "--ca-cert", cert, "--ca-key", key)
	require.Zero(t, r.exit, r.errOut)
	var sent rest.CABrought
	require.NoError(t, json.Unmarshal([]byte(z.asked("POST /operator/ca/rotate")[0].body), &sent))
	assert.Equal(t, rest.CABrought{Cert: string(certPEM), Key: string(keyPEM)}, sent)
}
