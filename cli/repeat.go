package cli

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"berth/api"
	"berth/api/client"
)

// repeatable is what the command line of a request that creates something must have, so
// that its repeat is known as one and gets the first answer.
type repeatable struct {
	name string      // what to call the request, such as "key 7f3a"; "" if the command line as it is names it
	set  [][2]string // flags with their values
	drop string      // flag to leave out, "" for none
}

// keyed returns what a request with an idempotency key must have: key, or a new one if
// that is "".
func keyed(key string) (string, repeatable) {
	if key == "" {
		key = api.NewUUID()
	}
	return key, repeatable{name: "key " + key, set: [][2]string{{"--key", key}}}
}

// hintRepeat returns err with the command that repeats this command line safely, unless
// the zone has certainly not recorded the request.
func (e *env) hintRepeat(err error, r repeatable) error {
	if err == nil || !isUnanswered(err) {
		return err
	}
	hint := "the zone may have recorded it; this repeats it safely: " + e.commandLine(r)
	if first := hintOfCall(err); first != "" {
		hint = first + "; " + hint
	}
	return withHint(err, hint)
}

// isUnanswered reports whether err leaves open if a request was recorded.
func isUnanswered(err error) bool {
	if _, told := errors.AsType[*failure](err); told || client.Undone(err) || client.Untrusted(err) || client.WrongScheme(err) {
		return false
	}
	switch api.CodeOf(err) {
	case api.CodeUnavailable, api.CodeTimeout, api.CodeOverloaded, api.CodeInternal:
		return true
	default:
		return errors.Is(err, context.Canceled)
	}
}

// commandLine returns this command line for a shell, with the flags that r sets at its end.
func (e *env) commandLine(r repeatable) string {
	gone := map[string]bool{r.drop: true}
	for _, f := range r.set {
		gone[f[0]] = true
	}
	words, rest := []string{"berth"}, []string{}
	for i := 0; i < len(e.args); i++ {
		flag, _, joined := strings.Cut(e.args[i], "=")
		switch {
		case e.args[i] == "--": // no flags after it
			rest, i = e.args[i:], len(e.args)
		case gone[flag] && !joined:
			i++ // and its value
		case !gone[flag]:
			words = append(words, e.args[i])
		}
	}
	for _, f := range r.set {
		words = append(words, f[0], f[1])
	}
	words = append(words, rest...)
	for i := range words {
		words[i] = quoteForShell(words[i])
	}
	return strings.Join(words, " ")
}

// plainWord matches what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// quoteForShell returns word so that a shell reads it as one word.
func quoteForShell(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
