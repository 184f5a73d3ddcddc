package node

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
)

// TestAuditOfAZone: changes by operators are recorded with who made them, under the id of the
// call, done or refused; each record is chained to the one before; and a restore is recorded
// and takes none of them back.
func TestAuditOfAZone(t *testing.T) {
	t.Parallel()
	r := newZone(t, "a").run()
	backup := r.backup()
	do := func(method, path, body string, want int) {
		t.Helper()
		status, said := r.answers(call{method, path, body, r.home.token, map[string]string{"Content-Type": "application/json"}})
		require.Equal(t, want, status, said)
	}
	do(http.MethodPost, "/operator/tokens", `{"user_id": "eve", "project_id": "web", "roles": ["admin"]}`, http.StatusCreated)
	do(http.MethodPost, "/flavors", `{"flavor": {"id": "f", "name": "f", "resources": {"VCPU": 1}}}`, http.StatusCreated)
	do(http.MethodPost, "/flavors", `{"flavor": {"id": "f", "name": "f", "resources": {"VCPU": 1}}}`, http.StatusConflict)
	do(http.MethodPost, "/operator/keyring/rotate", "", http.StatusNoContent)
	require.NoError(t, r.Restore(t.Context(), backup, false))

	status, said := r.answers(call{method: http.MethodGet, path: "/operator/audit", token: r.home.token})
	require.Equal(t, http.StatusOK, status, said)
	var list struct{ Audit []rest.AuditRecord }
	require.NoError(t, json.Unmarshal([]byte(said), &list))
	var last *rest.AuditRecord
	found := map[string]rest.AuditRecord{}
	for i := range list.Audit {
		one := &list.Audit[i]
		require.NoError(t, one.Check(last))
		found[one.Call+" "+one.Change+" "+one.Outcome] = *one
		last = one
	}
	var admin api.TokenID
	for _, token := range r.view().Tokens() {
		admin = token.ID
	}
	for _, want := range []string{"POST /operator/tokens TokenPut done", "POST /flavors FlavorPut done", "POST /flavors FlavorPut conflict", "POST /operator/keyring/rotate EpochAdd done"} {
		got, ok := found[want]
		require.True(t, ok, "%s in %s", want, said)
		assert.Equal(t, api.ActorToken, got.Actor.Kind)
		assert.Equal(t, string(admin), got.Actor.ID)
		assert.NotEmpty(t, got.Request)
	}
	restored := found["  done"]
	assert.Equal(t, "sealed backup", restored.Target)
	assert.NotContains(t, said, r.home.token, "no secret is in it")

	forged := list.Audit[1]
	forged.Outcome = "forbidden"
	require.ErrorContains(t, forged.Check(nil), "changed")
	require.ErrorContains(t, list.Audit[2].Check(&list.Audit[0]), "taken out")
}
