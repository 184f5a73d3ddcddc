package api_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

func TestCheckJSONText(t *testing.T) {
	for _, good := range []string{
		``, `{}`, `"a"`, `"ä€😀"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\uD83D\uDE00 \ud83d\ude00"`, `"\\ud800"`, `"\\\\ud800"`, `"\ufffd"`, "\"\ufffd\"",
		`"\n\t\"\\"`, `"\u12"`, `\`, `"\`, `\u`, `\uzzzz`,
	} {
		require.NoError(t, api.CheckJSONText([]byte(good)), "%q", good)
	}
	for bad, says := range map[string]string{
		"\"\xff\xfe\"":         "UTF-8 at byte 1",
		"{\"name\":\"aä\xe4\"": "UTF-8 at byte 12",
		"\"\xed\xa0\x80\"":     "UTF-8 at byte 1", // a surrogate in three bytes
		"\"\xc0\xaf\"":         "UTF-8 at byte 1", // longer than need be
		"\"\xf0\x9f\x98\"":     "UTF-8 at byte 1", // cut short
		`"\ud800"`:             `\ud800 at byte 1`,
		`"a\uDFFFb"`:           `\uDFFF at byte 2`,
		`"\ud83dx"`:            `\ud83d at byte 1`,
		`"\ud83d\u0041"`:       `\ud83d at byte 1`,
		`"\ud83d\ud83d\ude00"`: `\ud83d at byte 1`,
		`"\ude00\ud83d"`:       `\ude00 at byte 1`,
		`"\ud83d\`:             `\ud83d at byte 1`,
		`"\\\ud800"`:           `\ud800 at byte 3`,
	} {
		err := api.CheckJSONText([]byte(bad))
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "%q", bad)
		assert.Contains(t, api.MessageOf(err), says, "%q", bad)
	}
}

// FuzzCheckJSONText holds that no text which is taken is replaced by the decoder.
func FuzzCheckJSONText(f *testing.F) {
	for _, s := range []string{`\ud800`, `\ud83d\ude00`, "\xff\xfe", `\\ud800`, "ä", `\ufffd`, "\ufffd"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b := append(append([]byte{'"'}, text...), '"')
		var s string
		if json.Unmarshal(b, &s) != nil {
			return
		}
		err := api.CheckJSONText(b)
		again, _ := json.Marshal(s)
		var back string
		require.NoError(t, json.Unmarshal(again, &back))
		replaced := 0
		for _, r := range s {
			if r == utf8.RuneError {
				replaced++
			}
		}
		if err != nil {
			require.NotZero(t, replaced, "%q was refused and has nothing that is replaced", b)
		} else {
			require.Equal(t, s, back)
		}
		if replaced == 0 {
			require.NoError(t, err, "%q", b)
		}
	})
}
