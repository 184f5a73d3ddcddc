// Package script runs conversations: text files in which each command is followed by its
// answer. They are read like a transcript, reviewed like a diff and rewritten with
// -update.
//
//	# Two equal hosts: the lower name wins, so replays agree.
//	> host a 4
//	> select 1 2
//	offers [{a 500}] refused []
//
// A line that starts with ">" is a command: a name and arguments, split at
// spaces. The lines up to the next command, comment or empty line are its
// answer. A line of an answer that is empty or starts with ">", "#" or "|" is
// written with a "|" before it. Everything else, comments and empty lines, is
// kept as it is. Only tests may import this package.
package script

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/internal/golden"
)

// Command is one line that starts with ">".
type Command struct {
	Pos  string   // file:line, for messages
	Name string   // first word
	Args []string // the other words
}

// Run plays the conversation at path: do answers each command in turn, and the
// answers must be those in the file. Do runs on the goroutine of the test, may
// stop it, and returns an error only if the conversation should show it: it is written as
// "error: " and its text. Run stops the test when the file cannot be read.
func Run(tb testing.TB, path string, do func(c Command) (string, error)) {
	tb.Helper()
	text, err := os.ReadFile(path)
	require.NoError(tb, err, "reading a conversation")
	golden.Check(tb, path, []byte(playScript(path, string(text), do)))
}

// playScript returns text with every answer replaced by the present one of do.
func playScript(path, text string, do func(c Command) (string, error)) string {
	var out strings.Builder
	inAnswer := false
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		rest, isCommand := strings.CutPrefix(line, ">")
		if inAnswer && !isCommand && line != "" && line[0] != '#' {
			continue // the old answer
		}
		out.WriteString(line + "\n")
		words := strings.Fields(rest)
		inAnswer = isCommand && len(words) > 0
		if !inAnswer {
			continue
		}
		answer, err := do(Command{Pos: fmt.Sprintf("%s:%d", path, i+1), Name: words[0], Args: words[1:]})
		if err != nil {
			answer += "error: " + err.Error()
		}
		writeAnswer(&out, answer)
	}
	return out.String()
}

// writeAnswer writes an answer so that reading it back finds the same lines.
func writeAnswer(out *strings.Builder, answer string) {
	answer = strings.TrimSuffix(answer, "\n")
	if answer == "" {
		return
	}
	for line := range strings.SplitSeq(answer, "\n") {
		if line == "" || strings.ContainsAny(line[:1], ">#|") {
			out.WriteByte('|')
		}
		out.WriteString(line + "\n")
	}
}

// Arg returns argument i, counted from 0, or "" when there are fewer.
func (c Command) Arg(i int) string {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return ""
}

// Int returns argument i, counted from 0, as a decimal number. It stops the test
// if the argument is missing or not a number.
func (c Command) Int(tb testing.TB, i int) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(c.Arg(i), 10, 64)
	require.NoError(tb, err, "%s: argument %d of %s must be a number", c.Pos, i, c.Name)
	return n
}

// Value returns the text after "key=" in the first argument with that prefix, and whether
// there is one.
func (c Command) Value(key string) (string, bool) {
	for _, a := range c.Args {
		if v, ok := strings.CutPrefix(a, key+"="); ok {
			return v, true
		}
	}
	return "", false
}
