package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"berth/api"
)

// Headers of a delivery.
const (
	HeaderSignature = "Berth-Signature"  // t=SECONDS,v1=HEX, see Sign
	HeaderEventID   = "Berth-Event-Id"   // of the event: a repeated delivery has the same
	HeaderKind      = "Berth-Event-Kind" // such as instance.active
	HeaderWebhook   = "Berth-Webhook-Id"
)

// secretBytes is the length of a secret that a zone makes.
const secretBytes = 32

// NewSecret returns a random secret as text.
func NewSecret() string {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return "whsec_" + hex.EncodeToString(b[:])
}

// Sign returns the signature of a delivery: the time, and the HMAC with SHA-256 over the
// time in seconds, a dot and the body.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(digest(secret, t, body))
}

func digest(secret, t string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(t + ".")) // a hash never fails
	h.Write(body)
	return h.Sum(nil)
}

// Verify refuses a delivery whose signature was not made with the secret, or whose time is
// further from now than api.WebhookSignatureMaxAge: it may be replayed.
func Verify(secret, signature string, now time.Time, body []byte) error {
	t, rest, _ := strings.Cut(strings.TrimPrefix(signature, "t="), ",")
	seconds, err := strconv.ParseInt(t, 10, 64)
	sum, bad := hex.DecodeString(strings.TrimPrefix(rest, "v1="))
	if err != nil || bad != nil || !strings.HasPrefix(signature, "t=") || !strings.HasPrefix(rest, "v1=") {
		return api.Errorf(api.CodeInvalid, "the signature must look like t=SECONDS,v1=HEX")
	}
	if !hmac.Equal(sum, digest(secret, t, body)) {
		return api.Errorf(api.CodeUnauthenticated, "the signature was not made with this secret")
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > api.WebhookSignatureMaxAge {
		return api.Errorf(api.CodeUnauthenticated, "the delivery is not of the last %s", api.WebhookSignatureMaxAge)
	}
	return nil
}
