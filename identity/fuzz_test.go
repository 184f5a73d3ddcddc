package identity

import (
	"crypto/x509"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
)

func FuzzParseSubject(f *testing.F) {
	f.Add("berth://zone-a/node/n1")
	f.Add("berth://zone-a/node/%6e1")
	f.Add("berth:///node/n1")
	f.Fuzz(func(t *testing.T, uri string) {
		s, err := parseSubject(uri)
		if err != nil {
			require.Zero(t, s)
			return
		}
		require.Equal(t, uri, s.String(), "a subject has one spelling")
		require.NoError(t, s.Validate())
	})
}

// FuzzSubjectOf reads any certificate that crypto/x509 can read. What is accepted
// has no name but its URI.
func FuzzSubjectOf(f *testing.F) {
	a := newTestCA(f, "zone-a")
	f.Add(a.CertDER())
	for _, role := range []Role{RoleNode, RoleAPI} {
		f.Add(credentials(f, a, role, "n1").Cert.Certificate[0])
	}
	f.Add(forged(f, a, func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) }).Cert.Certificate[0])
	f.Fuzz(func(t *testing.T, der []byte) {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return
		}
		_, _ = checkAuthority(cert) // must not panic
		s, err := subjectOf(cert)
		if err != nil {
			require.Zero(t, s)
			return
		}
		require.NoError(t, s.Validate())
		require.Len(t, cert.URIs, 1)
		require.Equal(t, s.String(), cert.URIs[0].String())
		require.Empty(t, cert.Subject.Names)
		require.Empty(t, cert.EmailAddresses)
		if s.Role != RoleAPI {
			require.Empty(t, cert.DNSNames)
			require.Empty(t, cert.IPAddresses)
		}
	})
}

func FuzzCheckCSR(f *testing.F) {
	der, err := CSR(newTestKey(f))
	require.NoError(f, err)
	f.Add(der)
	f.Fuzz(func(t *testing.T, der []byte) {
		pub, err := CheckCSR(der)
		if err != nil {
			require.Nil(t, pub)
			require.Equal(t, api.CodeInvalid, api.CodeOf(err))
			return
		}
		require.True(t, isP256(pub))
	})
}

func FuzzParseToken(f *testing.F) {
	text, _, _ := NewToken()
	f.Add(text.Reveal())
	f.Add("berth__")
	f.Fuzz(func(t *testing.T, text string) {
		id, hash, err := ParseToken(text)
		if err != nil {
			require.Equal(t, api.CodeUnauthenticated, api.CodeOf(err))
			return
		}
		require.Equal(t, string(id), text[len(tokenPrefix):len(tokenPrefix)+2*tokenIDBytes])
		require.Len(t, hash, 32)
	})
}

func FuzzParseJoinToken(f *testing.F) {
	for _, kind := range []api.JoinKind{api.JoinNode, api.JoinAgent, api.JoinLink} {
		_, text := newTestJoinToken(f, kind, "10.0.0.1:7443", "[::1]:1")
		f.Add(text)
	}
	f.Add(joinPrefix)
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseJoinToken(text)
		if err != nil {
			require.Zero(t, token)
			require.Equal(t, api.CodeInvalid, api.CodeOf(err))
			return
		}
		again, err := token.Text()
		require.NoError(t, err)
		require.Equal(t, text, again.Reveal(), "a token has one spelling")
	})
}
