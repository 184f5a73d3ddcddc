package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
)

// exportedAudit writes records with numbers from 1 on to two files: the first has the first
// few, the second begins in the middle, as if the zone had dropped what is older.
func exportedAudit(t *testing.T, change func(number uint64, r *rest.AuditRecord)) (older, newer string) {
	t.Helper()
	older, newer = filepath.Join(t.TempDir(), "older"), filepath.Join(t.TempDir(), "newer")
	a, err := os.Create(older)
	require.NoError(t, err)
	b, err := os.Create(newer)
	require.NoError(t, err)
	var before []byte
	for n := uint64(1); n <= 9; n++ {
		r := api.AuditRecord{Number: n, Index: 10 * n, Actor: api.AuditActor{Kind: api.ActorToken, ID: "t"}, Call: "DELETE /operator/tokens/x"}
		r.Sum = r.SumAfter(before)
		one := rest.AuditRecordOf(&r, before)
		before = r.Sum
		if change != nil {
			change(n, &one)
		}
		if n <= 5 {
			require.NoError(t, json.NewEncoder(a).Encode(one))
		}
		if n >= 4 {
			require.NoError(t, json.NewEncoder(b).Encode(one))
		}
	}
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	return older, newer
}

// TestExportsOfTheAuditLogJoinUp: files are checked one after another, across what the zone has dropped.
func TestExportsOfTheAuditLogJoinUp(t *testing.T) {
	check := func(files ...string) (*auditChain, error) {
		chain := new(auditChain)
		for _, f := range files {
			if err := eachExported(f, chain.add); err != nil {
				return chain, err
			}
		}
		return chain, nil
	}
	older, newer := exportedAudit(t, nil)
	chain, err := check(older, newer)
	require.NoError(t, err)
	require.Len(t, chain.sums, 9)
	require.Equal(t, uint64(9), chain.last.Number)
	_, err = check(newer)
	require.NoError(t, err, "what is older was dropped")
	_, err = check(newer, older)
	require.ErrorContains(t, err, "does not follow record 9")

	_, changed := exportedAudit(t, func(n uint64, r *rest.AuditRecord) {
		if n == 7 {
			r.Actor.ID = "u"
		}
	})
	_, err = check(older, changed)
	require.ErrorContains(t, err, "record 7")
	require.ErrorContains(t, err, "was changed")
}
