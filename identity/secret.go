package identity

import (
	"fmt"
	"log/slog"
)

// Secret is text that must not be printed. It shows itself as "[secret]" to
// package fmt, to encoding/json and to slog; only Reveal returns it. The text is
// behind a pointer, so that printing a struct with a Secret in an unexported
// field, where fmt calls no method, shows an address. Secrets are not comparable
// in a meaningful way.
type Secret struct{ text *string }

const hidden = "[secret]"

// newSecret returns text as a Secret.
func newSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text, "" for the zero Secret.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns "[secret]".
func (s Secret) String() string { return hidden }

// GoString is String.
func (s Secret) GoString() string { return hidden }

// Format writes String for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) } // fmt reports write errors itself

// MarshalText returns String; encoding/json uses it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue returns String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
