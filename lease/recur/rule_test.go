package recur

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"FREQ=DAILY;COUNT=5":                                  "FREQ=DAILY;COUNT=5",
		"RRULE:FREQ=DAILY;INTERVAL=1;COUNT=400":               "FREQ=DAILY;COUNT=400",
		"count=5;freq=daily;interval=366":                     "FREQ=DAILY;INTERVAL=366;COUNT=5",
		"FREQ=WEEKLY;UNTIL=20270301;BYDAY=WE,MO,SU,MO":        "FREQ=WEEKLY;UNTIL=20270301;BYDAY=MO,WE,SU",
		"FREQ=WEEKLY;UNTIL=20270301T100000Z":                  "FREQ=WEEKLY;UNTIL=20270301T100000Z",
		"FREQ=MONTHLY;COUNT=2;BYDAY=-1FR,2MO,+2TU":            "FREQ=MONTHLY;COUNT=2;BYDAY=-1FR,2MO,2TU",
		"FREQ=MONTHLY;COUNT=2;BYMONTHDAY=31,-31,1,-1":         "FREQ=MONTHLY;COUNT=2;BYMONTHDAY=-31,-1,1,31",
		"FREQ=DAILY;COUNT=2;BYMONTHDAY=13;BYDAY=FR":           "FREQ=DAILY;COUNT=2;BYDAY=FR;BYMONTHDAY=13",
		"FREQ=MONTHLY;COUNT=1;BYDAY=5MO,-5MO,TU;BYMONTHDAY=1": "FREQ=MONTHLY;COUNT=1;BYDAY=-5MO,TU,5MO;BYMONTHDAY=1",
	} {
		r, err := Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, r.String())
		again, err := Parse(r.String())
		require.NoError(t, err, text)
		assert.Equal(t, r, again)
	}
}

func TestParseNamesTheBadPart(t *testing.T) {
	for text, says := range map[string]string{
		"":                                       `"" must be NAME=VALUE`,
		"FREQ":                                   `"FREQ" must be NAME=VALUE`,
		"FREQ=":                                  `"FREQ=" must be NAME=VALUE`,
		"FREQ=DAILY;COUNT=5;":                    `"" must be NAME=VALUE`,
		"COUNT=5":                                "FREQ must be DAILY, WEEKLY or MONTHLY",
		"FREQ=YEARLY;COUNT=5":                    "FREQ must be",
		"FREQ=DAILY":                             "needs an end",
		"FREQ=DAILY;COUNT=5;UNTIL=20270301":      "needs an end, either COUNT or UNTIL",
		"FREQ=DAILY;FREQ=DAILY;COUNT=5":          "FREQ is there twice",
		"FREQ=DAILY;COUNT=0":                     "COUNT must be a number from 1",
		"FREQ=DAILY;COUNT=-1":                    "COUNT must be a number from 1",
		"FREQ=DAILY;COUNT=401":                   "COUNT must be at most 400, got 401",
		"FREQ=DAILY;COUNT=99999999999999999999":  "COUNT must be a number",
		"FREQ=DAILY;COUNT=5;INTERVAL=0":          "INTERVAL must be a number from 1",
		"FREQ=DAILY;COUNT=5;INTERVAL=367":        "INTERVAL must be at most 366",
		"FREQ=DAILY;COUNT=5;INTERVAL=x":          "INTERVAL must be a number",
		"FREQ=DAILY;UNTIL=2027-03-01":            "UNTIL must be a day",
		"FREQ=DAILY;UNTIL=20270230":              "UNTIL must be a day",
		"FREQ=DAILY;UNTIL=20270301T100000":       "UNTIL must be a day",
		"FREQ=DAILY;COUNT=5;BYDAY=XX":            `BYDAY: "XX" must be a weekday`,
		"FREQ=DAILY;COUNT=5;BYDAY=M":             `BYDAY: "M" must be a weekday`,
		"FREQ=MONTHLY;COUNT=5;BYDAY=0MO":         `BYDAY: "0MO"`,
		"FREQ=MONTHLY;COUNT=5;BYDAY=6MO":         `BYDAY: "6MO"`,
		"FREQ=MONTHLY;COUNT=5;BYDAY=-6MO":        `BYDAY: "-6MO"`,
		"FREQ=MONTHLY;COUNT=5;BYDAY=1.5MO":       `BYDAY: "1.5MO"`,
		"FREQ=WEEKLY;COUNT=5;BYDAY=MO,":          `BYDAY: ""`,
		"FREQ=WEEKLY;COUNT=5;BYDAY=1MO":          "BYDAY with numbers needs FREQ=MONTHLY",
		"FREQ=DAILY;COUNT=5;BYDAY=1MO":           "BYDAY with numbers needs FREQ=MONTHLY",
		"FREQ=WEEKLY;COUNT=5;BYMONTHDAY=1":       "BYMONTHDAY does not go with FREQ=WEEKLY",
		"FREQ=MONTHLY;COUNT=5;BYMONTHDAY=0":      `BYMONTHDAY: "0"`,
		"FREQ=MONTHLY;COUNT=5;BYMONTHDAY=32":     `BYMONTHDAY: "32"`,
		"FREQ=MONTHLY;COUNT=5;BYMONTHDAY=-32":    `BYMONTHDAY: "-32"`,
		"FREQ=DAILY;COUNT=5;BYHOUR=10":           `"BYHOUR" is not possible: the start gives the time`,
		"FREQ=WEEKLY;COUNT=5;WKST=SU":            `"WKST" is not possible: weeks begin on Monday`,
		"FREQ=DAILY;COUNT=5;COLOUR=RED":          `"COLOUR" is not possible: it is not known`,
		strings.Repeat(" ", RuleMaxBytes+1):      "at most 512 bytes",
		"FREQ=DAILY;COUNT=5;BYSETPOS=1":          `"BYSETPOS" is not possible`,
		"FREQ=DAILY;COUNT=5 ;BYDAY=MO":           "COUNT must be a number",
		"FREQ=MONTHLY;COUNT=5;BYMONTHDAY=1,,2":   `BYMONTHDAY: ""`,
		"DTSTART:20270301\nRRULE:FREQ=DAILY;X=1": "FREQ",
	} {
		_, err := Parse(text)
		require.Equal(t, api.CodeInvalid, api.CodeOf(err), text)
		assert.Contains(t, api.MessageOf(err), says)
	}
	longest := "FREQ=DAILY;COUNT=5;BYMONTHDAY=1" + strings.Repeat(",1", (RuleMaxBytes-31)/2)
	longest += strings.Repeat("1", RuleMaxBytes-len(longest))
	require.Len(t, longest, RuleMaxBytes)
	_, err := Parse(longest)
	require.NoError(t, err, "the longest rule")
}

// TestParseReadsWhatItWrites, and never fails otherwise than with a refusal.
func TestParseReadsWhatItWrites(t *testing.T) {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{
			"FREQ=DAILY", "FREQ=WEEKLY", "FREQ=MONTHLY", "COUNT=3", "UNTIL=20270301", "INTERVAL=2", "BYDAY=MO,-1FR", "BYDAY=TU", "BYMONTHDAY=-1,7",
		}), rapid.StringMatching(`[A-Z=;:,0-9+-]{0,12}`), rapid.String())
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(part, 1, 5).Draw(rt, "parts"), ";")
		r, err := Parse(text)
		if err != nil {
			require.Equal(rt, api.CodeInvalid, api.CodeOf(err))
			return
		}
		again, err := Parse(r.String())
		require.NoError(rt, err)
		assert.Equal(rt, r, again)
	})
}
