package wire

import (
	"encoding/json"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

// shown is an item of a list.
type shown struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
}

// listed is an answer with a list.
type listed struct {
	Items []shown `json:"items"`
	Next  string  `json:"next_marker"`
}

// listOf is a page of items that are numbered from 0 and have a text of some length each.
func listOf(next string, lengths ...int) List[int, shown] {
	l := List[int, shown]{
		Key: "items", Next: next, ID: strconv.Itoa,
		View: func(n int) shown { return shown{n, strings.Repeat("<", lengths[n])} },
	}
	for n := range lengths {
		l.Items = append(l.Items, n)
	}
	return l
}

func written(tb require.TestingT, l List[int, shown]) (out listed, text string) {
	w := httptest.NewRecorder()
	l.Write(w)
	require.Equal(tb, 200, w.Code)
	require.Equal(tb, "application/json", w.Header().Get("Content-Type"))
	require.NoError(tb, json.Unmarshal(w.Body.Bytes(), &out))
	return out, w.Body.String()
}

func TestListsAreJSON(t *testing.T) {
	_, text := written(t, listOf(""))
	assert.Equal(t, "{\"items\":[]}\n", text) //nolint:testifylint // the bytes matter
	_, text = written(t, listOf("a\"b", 1, 0))
	assert.Equal(t, `{"items":[{"id":0,"text":"<"},{"id":1,"text":""}],"next_marker":"a\"b"}`+"\n", text) //nolint:testifylint // the bytes matter
}

// TestListsEndAtTheirLimit: a page of exactly the limit is whole, and one byte more is for the
// next page.
func TestListsEndAtTheirLimit(t *testing.T) {
	_, small := written(t, listOf("", 0, 0))
	room := api.ListMaxBytes - (len(small) - len("]}\n"))
	full := listOf("", 0, room) // what follows the items is not counted
	got, _ := written(t, full)
	require.Len(t, got.Items, 2)
	assert.Empty(t, got.Next)
	got, _ = written(t, listOf("", 0, room+1))
	require.Len(t, got.Items, 1)
	assert.Equal(t, "0", got.Next)

	one := listOf("", 2*api.ListMaxBytes)
	got, _ = written(t, one)
	assert.Len(t, got.Items, 1, "one item always fits")
	whole := listOf("", api.ListMaxBytes, api.ListMaxBytes)
	whole.ID = nil
	got, _ = written(t, whole)
	assert.Len(t, got.Items, 2, "a list without pages is whole")
}

// TestPagesHaveAllOfAList: whoever follows the markers sees each item once, in order, in answers
// that are not too long.
func TestPagesHaveAllOfAList(t *testing.T) {
	const most = 1000
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(0, most/3), 1, 12).Draw(t, "lengths")
		all := listOf("", lengths...)
		all.max = most
		seen := 0
		for pages := 0; ; pages++ {
			page := all
			page.Items = all.Items[seen:]
			got, text := written(t, page)
			if len(text) > most+100 {
				t.Fatalf("an answer has %d bytes", len(text))
			}
			for _, i := range got.Items {
				if i.ID != seen || len(i.Text) != lengths[seen] {
					t.Fatalf("got item %d where %d was due", i.ID, seen)
				}
				seen++
			}
			if got.Next == "" {
				break
			}
			if got.Next != strconv.Itoa(seen-1) || pages > len(lengths) {
				t.Fatalf("next is %q after %d", got.Next, seen-1)
			}
		}
		if seen != len(lengths) {
			t.Fatalf("saw %d of %d items", seen, len(lengths))
		}
	})
}
