package api

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// escapeBytes is the length of an escape of JSON that names a UTF-16 unit, such as
// \u00e9.
const escapeBytes = 6

// CheckText returns an invalid-input error, with the place, for bytes that are not
// UTF-8. Decoders replace each of them by the same character, so that different inputs
// would become one.
func CheckText(b []byte) error {
	if utf8.Valid(b) {
		return nil
	}
	at := 0
	for at < len(b) {
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return Errorf(CodeInvalid, "it is not valid UTF-8 at byte %d", at)
}

// CheckJSONText is CheckText for JSON, and refuses half of a surrogate pair too,
// such as \ud800 alone. It does not check that the bytes are JSON.
func CheckJSONText(b []byte) error {
	if err := CheckText(b); err != nil {
		return err
	}
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '\\')
		if n < 0 {
			return nil
		}
		i += n
		unit, ok := readEscape(b[i:])
		switch {
		case !ok:
			i = min(i+2, len(b)) // another escape, such as \\ or \n
			continue
		case utf16.IsSurrogate(unit):
			low, _ := readEscape(b[i+escapeBytes:])
			if utf16.DecodeRune(unit, low) == utf8.RuneError {
				return Errorf(CodeInvalid, "it has %s at byte %d, which is half of a surrogate pair and no character", b[i:i+escapeBytes], i)
			}
			i += escapeBytes
		}
		i += escapeBytes
	}
}

// readEscape returns the UTF-16 unit of the escape \uXXXX at the beginning of b.
func readEscape(b []byte) (rune, bool) {
	if len(b) < escapeBytes || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:escapeBytes]), 16, 16)
	return rune(n), err == nil
}
