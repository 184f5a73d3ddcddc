package query

import (
	"errors"
	"strconv"
	"strings"
)

const (
	decimals = 6         // places after the point that a number has
	micros   = 1_000_000 // of one
)

// NumberMax is the largest number, positive or negative, of a query or of an
// attribute.
const NumberMax = 9_000_000_000_000

var (
	errPrecise = errors.New("has more than 6 places after the point")
	errRange   = errors.New("is beyond 9000000000000")
)

// ParseMicros reads the number that an attribute spells, in millionths: a plain
// decimal of at most six places after the point, no leading zeros, no exponent,
// within NumberMax. Anything else is a text, and ok is false.
func ParseMicros(text string) (n int64, ok bool) {
	whole, frac, point := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	if !isDigits(whole) || len(whole) > 1 && whole[0] == '0' {
		return 0, false
	}
	if point && (!isDigits(frac) || len(frac) > decimals) {
		return 0, false
	}
	n, err := parseNumber(text)
	return n, err == nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// parseNumber reads a JSON number exactly, in millionths. What it cannot hold
// exactly is an error.
func parseNumber(text string) (int64, error) {
	rest, negative := strings.CutPrefix(text, "-")
	mantissa, exponent := rest, ""
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa, exponent = rest[:i], rest[i+1:]
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+frac, "0")
	if digits == "" {
		return 0, nil
	}
	scale := decimals - len(frac)
	if exponent != "" {
		e, err := strconv.Atoi(exponent)
		if err != nil || e > 1<<20 || e < -1<<20 { // no text is long enough to make up for it
			return 0, checkExponent(exponent)
		}
		scale += e
	}
	short := strings.TrimRight(digits, "0")
	scale += len(digits) - len(short)
	if scale < 0 {
		return 0, errPrecise
	}
	if len(short)+scale > 19 {
		return 0, errRange
	}
	n, err := strconv.ParseInt(short+strings.Repeat("0", scale), 10, 64)
	if err != nil || n > NumberMax*micros {
		return 0, errRange
	}
	if negative {
		n = -n
	}
	return n, nil
}

func checkExponent(exponent string) error {
	if exponent[0] == '-' {
		return errPrecise
	}
	return errRange
}

// appendNumber appends the shortest spelling of n millionths: the plain one, or
// one with an exponent if that is shorter.
func appendNumber(to []byte, n int64) []byte {
	if n < 0 {
		to, n = append(to, '-'), -n
	}
	if n == 0 {
		return append(to, '0')
	}
	digits := strconv.FormatInt(n, 10)
	plain := strconv.FormatInt(n/micros, 10)
	if frac := n % micros; frac != 0 {
		places := strconv.FormatInt(frac+micros, 10)[1:] // with its leading zeros
		plain += "." + strings.TrimRight(places, "0")
	}
	short := strings.TrimRight(digits, "0")
	if e := len(digits) - len(short) - decimals; e != 0 {
		if powered := short + "e" + strconv.Itoa(e); len(powered) < len(plain) {
			return append(to, powered...)
		}
	}
	return append(to, plain...)
}
