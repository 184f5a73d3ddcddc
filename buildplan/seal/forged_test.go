package seal

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
)

var forgedCount = flag.Int("forged", 100_000, "blobs that TestForgedBlobsAreRefused tries")

// forger makes blobs that its zone has not sealed, or not for the call that they
// are shown with. It is for one goroutine.
type forger struct {
	dice *rand.Rand
	ring Keyring
	ctx  Context
	real [][]byte // sealed by the ring for ctx: two of each of some lengths
	work []byte   // where a blob is spoilt
}

// forgery returns a blob and the call that it is shown with. The blob is good
// until the next forgery.
type forgery func(f *forger) (Context, []byte)

// forgeries are the ways to make one.
func forgeries() map[string]forgery {
	out := map[string]forgery{
		"any bytes":               (*forger).bytes,
		"any bytes, known epoch":  (*forger).ours,
		"flipped bits":            (*forger).flip,
		"cut":                     (*forger).cut,
		"cut to a size":           (*forger).cutToSize,
		"extended":                (*forger).extend,
		"spliced":                 (*forger).splice,
		"parts exchanged":         (*forger).exchange,
		"epoch of another key":    (*forger).otherEpoch,
		"unknown epoch":           (*forger).unknownEpoch,
		"unknown suite":           (*forger).otherSuite,
		"sealed with a wrong key": (*forger).wrongKey,
	}
	for name, change := range map[string]func(c *Context, other string){
		"zone":        func(c *Context, s string) { c.Zone = api.ZoneID(s) },
		"link":        func(c *Context, s string) { c.Peer = s },
		"project":     func(c *Context, s string) { c.Project = api.ProjectID(s) },
		"reservation": func(c *Context, s string) { c.Reservation = api.ReservationID(s) },
		"request":     func(c *Context, s string) { copy(c.Digest[:], s) },
	} {
		out["for another "+name] = func(f *forger) (Context, []byte) {
			c := f.ctx
			change(&c, fmt.Sprintf("%016x", f.dice.Uint64()))
			return c, f.pick()
		}
	}
	return out
}

func newForger(tb testing.TB, seed uint64) *forger {
	tb.Helper()
	f := &forger{
		dice: rand.New(rand.NewPCG(seed, 1)), ring: Keyring{testKey("new"), testKey("old")}, ctx: testContext(),
		work: make([]byte, 64<<10),
	}
	for i, n := range []int{10, 10, 900, 900, 2000, 2000, 9000, 9000} {
		plan := make([]byte, n)
		f.fill(plan)
		f.real = append(f.real, mustSeal(tb, f.ring[i%2], f.ctx, plan, testSalt(int(seed)*100+i)))
	}
	return f
}

func (f *forger) fill(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, f.dice.Uint64())
	}
	for i := range b {
		b[i] = byte(f.dice.Uint32())
	}
}

// pick returns a blob that is real; most often a short one.
func (f *forger) pick() []byte {
	return f.real[min(f.dice.IntN(len(f.real)), f.dice.IntN(len(f.real)))]
}

// copyOf returns a copy of a blob that may be spoilt.
func (f *forger) copyOf(b []byte) []byte { return f.work[:copy(f.work, b)] }

// bytes is of any length up to that of the longest blob, one of the sizes for the
// most part. Long ones repeat what they begin with: nothing must look that far.
func (f *forger) bytes() (Context, []byte) {
	n := Sizes()[f.dice.IntN(len(Sizes()))]
	if f.dice.IntN(4) == 0 {
		n = f.dice.IntN(api.BlobMaxBytes + 2)
	}
	if n > len(f.work) {
		long := longBytes()[:n]
		return f.ctx, long
	}
	f.fill(f.work[:n])
	return f.ctx, f.work[:n]
}

// longBytes returns bytes of any content that are as long as a blob may not be.
var longBytes = sync.OnceValue(func() []byte {
	b := make([]byte, api.BlobMaxBytes+1)
	(&forger{dice: rand.New(rand.NewPCG(1, 2))}).fill(b)
	b[0] = suite1
	return b
})

func (f *forger) ours() (Context, []byte) {
	b := f.work[:len(f.pick())]
	f.fill(b)
	b[0] = suite1
	copy(b[epochAt:], f.ring[f.dice.IntN(2)].Epoch[:])
	return f.ctx, b
}

func (f *forger) flip() (Context, []byte) {
	b := f.copyOf(f.pick())
	done := map[int]bool{}
	for range 1 + f.dice.IntN(8) {
		bit := f.dice.IntN(len(b) * 8)
		if !done[bit] { // twice would be not at all
			b[bit/8] ^= 1 << (bit % 8)
		}
		done[bit] = true
	}
	return f.ctx, b
}

func (f *forger) cut() (Context, []byte) {
	b := f.pick()
	return f.ctx, b[:f.dice.IntN(len(b))]
}

func (f *forger) cutToSize() (Context, []byte) {
	b := f.real[4+f.dice.IntN(len(f.real)-4)] // not one of the shortest
	sizes := slices.DeleteFunc(Sizes(), func(n int) bool { return n >= len(b) })
	return f.ctx, b[:sizes[f.dice.IntN(len(sizes))]]
}

func (f *forger) extend() (Context, []byte) {
	n := len(f.copyOf(f.pick()))
	sizes := slices.DeleteFunc(Sizes(), func(size int) bool { return size <= n || size > len(f.work) })
	to := sizes[f.dice.IntN(len(sizes))]
	if f.dice.IntN(2) == 0 {
		to = n + 1 + f.dice.IntN(200)
	}
	if f.dice.IntN(2) == 0 {
		f.fill(f.work[n:to])
	} else {
		clear(f.work[n:to])
	}
	return f.ctx, f.work[:to]
}

// splice joins the front of one blob to the back of another of its length.
func (f *forger) splice() (Context, []byte) {
	i := f.dice.IntN(len(f.real) / 2)
	return f.join(f.real[2*i], f.real[2*i+1], 1+f.dice.IntN(len(f.real[2*i])-1))
}

// exchange joins a header, or a part of one, to another blob.
func (f *forger) exchange() (Context, []byte) {
	i := f.dice.IntN(len(f.real) / 2)
	at := []int{saltAt, commitAt, headerBytes, len(f.real[2*i]) - tagBytes}
	return f.join(f.real[2*i+1], f.real[2*i], at[f.dice.IntN(len(at))])
}

func (f *forger) join(a, b []byte, at int) (Context, []byte) {
	out := f.copyOf(a)
	copy(out[at:], b[at:])
	if bytes.Equal(out, a) || bytes.Equal(out, b) {
		out[len(out)-1] ^= 1 // the two differ on one side of the cut alone
	}
	return f.ctx, out
}

func (f *forger) otherEpoch() (Context, []byte) {
	b := f.copyOf(f.pick())
	for _, k := range f.ring {
		if !bytes.Equal(k.Epoch[:], b[epochAt:saltAt]) {
			copy(b[epochAt:], k.Epoch[:])
			break
		}
	}
	return f.ctx, b
}

func (f *forger) unknownEpoch() (Context, []byte) {
	b := f.copyOf(f.pick())
	was := binary.LittleEndian.Uint32(b[epochAt:])
	binary.LittleEndian.PutUint32(b[epochAt:], was+1+f.dice.Uint32N(1<<31))
	return f.ctx, b
}

func (f *forger) otherSuite() (Context, []byte) {
	b := f.copyOf(f.pick())
	b[0] += byte(1 + f.dice.IntN(255))
	return f.ctx, b
}

// wrongKey seals as the zone does, with a key that bears the zone's epoch.
func (f *forger) wrongKey() (Context, []byte) {
	k := Key{Epoch: f.ring[f.dice.IntN(2)].Epoch}
	f.fill(k.Secret[:])
	var salt [SaltBytes]byte
	f.fill(salt[:])
	b, err := Seal(k, f.ctx, []byte("400 slots on a host of my own"), salt)
	if err != nil {
		panic(err) // it is short
	}
	return f.ctx, b
}

// try offers n forgeries of one sort and returns what is wrong with the first
// that was not refused as all others are.
func (f *forger) try(next forgery, n int) (fault string) {
	var blob []byte
	defer func() {
		if p := recover(); p != nil {
			fault = fmt.Sprintf("panic %v for %x", p, blob[:min(len(blob), 200)])
		}
	}()
	for range n {
		var ctx Context
		ctx, blob = next(f)
		plaintext, err := f.ring.Open(ctx, blob)
		e, ok := err.(*api.Error) //nolint:errorlint // the refusal itself, wrapped by nothing
		if plaintext != nil || !ok || e.Code != api.CodePlanRefused || e.Msg != api.PlanRefusedMessage || e.Op != "" {
			return fmt.Sprintf("not refused, or not as all others: %v for %+v, %x", err, ctx, blob[:min(len(blob), 200)])
		}
	}
	return ""
}

// TestForgedBlobsAreRefused offers -forged blobs of every sort to the opener:
// none is accepted, none makes it panic, and all are refused in one way.
func TestForgedBlobsAreRefused(t *testing.T) {
	sorts := forgeries()
	workers := runtime.GOMAXPROCS(0)
	each := *forgedCount/(len(sorts)*workers) + 1
	var mu sync.Mutex
	tried := map[string]int{}
	began, seed := time.Now(), dice.Seed(t)
	var wg sync.WaitGroup
	for w := range workers {
		f := newForger(t, seed+uint64(w))
		wg.Go(func() {
			for _, name := range slices.Sorted(maps.Keys(sorts)) {
				fault := f.try(sorts[name], each)
				mu.Lock()
				tried[name] += each
				assert.Empty(t, fault, "%s, seed %d", name, seed+uint64(w))
				mu.Unlock()
			}
			for _, b := range f.real {
				_, err := f.ring.Open(f.ctx, b)
				assert.NoError(t, err, "what is real opens still")
			}
		})
	}
	wg.Wait()
	took, sum := time.Since(began), 0
	for name := range sorts {
		require.Positive(t, tried[name], name)
		sum += tried[name]
		t.Logf("%-24s %d", name, tried[name])
	}
	assert.GreaterOrEqual(t, sum, *forgedCount)
	t.Logf("%d forged blobs in %d sorts, none accepted, %.0f a second", sum, len(sorts), float64(sum)/took.Seconds())
}

// TestForgersAreCaught shows that the test can fail: what is real is not refused.
func TestForgersAreCaught(t *testing.T) {
	f := newForger(t, dice.Seed(t))
	assert.Contains(t, f.try(func(f *forger) (Context, []byte) { return f.ctx, f.pick() }, 1), "not refused")
	assert.Contains(t, f.try(func(*forger) (Context, []byte) { panic("oops") }, 1), "panic oops")
}
