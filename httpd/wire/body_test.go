package wire

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/budget"
)

// counted is a body that knows how much of it was read.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// held is a request with an account, whose body says that it has so many bytes, or does not say it with -1.
func held(b *budget.Budget, body io.Reader, says int64) (*http.Request, *budget.Account) {
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.ContentLength = says
	a := b.Begin(budget.Party{Scope: budget.User, ID: "ann"})
	return r.WithContext(budget.With(r.Context(), a)), a
}

// TestABodyIsCountedBeforeItIsRead: at its limit a body is read and held until the call is over, and of one above it no more
// is read than what was counted. Large bodies leave room for small ones.
func TestABodyIsCountedBeforeItIsRead(t *testing.T) {
	const large = 4 * budget.SmallBody
	for _, says := range []bool{true, false} {
		b := budget.New(budget.Limits{budget.Bodies: {budget.User: 2*budget.SmallBody + 1000}, budget.LargeBodies: {budget.User: large - budget.SmallBody + 1}})
		length := func(n int) int64 {
			if says {
				return int64(n)
			}
			return -1
		}
		first, one := held(b, strings.NewReader(strings.Repeat("x", large)), length(large))
		got, err := readBody(first, large)
		require.NoError(t, err)
		assert.Equal(t, strings.Repeat("x", large), string(got))

		body := &counted{Reader: strings.NewReader(strings.Repeat("y", large))}
		second, two := held(b, body, length(large))
		_, err = readBody(second, large)
		assert.Equal(t, api.CodeOverloaded, api.CodeOf(err))
		assert.Contains(t, api.MessageOf(err), "bytes of large bodies")
		assert.LessOrEqual(t, body.n, budget.SmallBody)
		two.End()

		third, three := held(b, strings.NewReader(strings.Repeat("z", 1000)), length(1000))
		_, err = readBody(third, large)
		require.NoError(t, err, "a small one")
		one.End()
		fourth, _ := held(b, strings.NewReader(strings.Repeat("x", large)), length(large))
		_, err = readBody(fourth, large)
		require.NoError(t, err, "the first call is over")
		three.End()
	}
}

// TestABodyOfAnySize is read whole at its limit, whatever it says of its length and however it comes.
func TestABodyOfAnySize(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512, 513, budget.SmallBody - 1, budget.SmallBody, budget.SmallBody + 1, 3*budget.SmallBody + 7} {
		text := strings.Repeat("x", n)
		for _, says := range []int64{int64(n), -1} {
			for name, body := range map[string]io.Reader{
				"whole": strings.NewReader(text), "bits": iotest.HalfReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text)),
			} {
				r, _ := held(nil, body, says)
				got, err := readBody(r, int64(n))
				require.NoError(t, err, "%d %s", n, name)
				assert.Equal(t, text, string(got), "%d %s", n, name)
			}
			r, _ := held(nil, strings.NewReader(text+"x"), says)
			_, err := readBody(r, int64(n))
			assert.Equal(t, api.CodeTooLarge, api.CodeOf(err), "%d and one", n)
		}
	}
}

// TestALimitOfARoute: it is what WithLimit has said.
func TestALimitOfARoute(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	assert.Equal(t, int64(api.BodyMaxBytes), LimitOf(r))
	assert.Equal(t, int64(5), LimitOf(WithLimit(r, 5)))
}

// TestAKeptBodyIsReadOnce, and had as often as the call is made.
func TestAKeptBodyIsReadOnce(t *testing.T) {
	assert.Nil(t, Keep(nil))
	src := &counted{Reader: strings.NewReader("{}")}
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.Body, r.ContentLength = Keep(io.NopCloser(src)), -1
	for range 2 {
		b, err := readBody(r, 2)
		require.NoError(t, err)
		assert.Equal(t, "{}", string(b))
	}
	assert.Equal(t, 2, src.n)
	_, err := io.ReadAll(r.Body)
	require.ErrorContains(t, err, "by ReadJSON and ReadCBOR alone")
	r.Body = Keep(io.NopCloser(iotest.ErrReader(errors.New("gone"))))
	for range 2 {
		_, err := readBody(r, 2)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	}
}

// TestWaitsAreCounted: a read that waits needs a place, one that does not needs none, and neither does a change.
func TestWaitsAreCounted(t *testing.T) {
	b := budget.New(budget.Limits{budget.Waits: {budget.User: 2}})
	ask := func(method, query string) (*budget.Account, error) {
		a := b.Begin(budget.Party{Scope: budget.User, ID: "ann"})
		r := httptest.NewRequest(method, "/"+query, http.NoBody)
		_, err := Wait(r.WithContext(budget.With(r.Context(), a)))
		return a, err
	}
	first, err := ask(http.MethodGet, "?wait=30s")
	require.NoError(t, err)
	_, err = ask(http.MethodGet, "?wait=1ms")
	require.NoError(t, err)
	_, err = ask(http.MethodGet, "?wait=30s")
	assert.Equal(t, api.CodeOverloaded, api.CodeOf(err))
	assert.Contains(t, api.MessageOf(err), "2 calls that wait")
	for _, c := range [][2]string{{http.MethodGet, ""}, {http.MethodGet, "?wait=0s"}, {http.MethodPost, "?wait=30s"}, {http.MethodDelete, "?wait=30s"}} {
		_, err = ask(c[0], c[1])
		require.NoError(t, err, c)
	}
	first.End()
	_, err = ask(http.MethodGet, "?wait=30s")
	require.NoError(t, err)
}
