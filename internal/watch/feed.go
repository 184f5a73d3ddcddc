package watch

import "sync"

// FeedMax is how many keys a Feed holds for its reader. With more it holds none, and tells
// its reader that anything may have been woken.
const FeedMax = 4096

// Feed collects, for one reader, which keys were woken since it last looked. All methods may
// be called concurrently.
type Feed[K comparable] struct {
	wanted func(K) bool
	woken  chan struct{}

	mu   sync.Mutex // guards what follows
	keys []K        // without repeats, in the order in which they were first woken
	seen map[K]bool
	all  bool // keys are not all
}

// AddFeed returns a feed of the keys that wanted accepts, until remove is called. A reader
// that has a feed before it reads the state misses no change.
func (l *List[K]) AddFeed(wanted func(K) bool) (f *Feed[K], remove func()) {
	f = &Feed[K]{wanted: wanted, woken: make(chan struct{}, 1), seen: map[K]bool{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.feeds == nil {
		l.feeds = map[*Feed[K]]struct{}{}
	}
	l.feeds[f] = struct{}{}
	return f, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.feeds, f)
	}
}

// Woken returns a channel that gets a value after a key was woken, one value for any number.
func (f *Feed[K]) Woken() <-chan struct{} { return f.woken }

// Take returns the keys that were woken since the last call, each once. all is true if any
// key may have been.
func (f *Feed[K]) Take() (keys []K, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys, all = f.keys, f.all
	f.keys, f.all = nil, false
	clear(f.seen)
	return keys, all
}

// put adds the keys that the feed is for; the zero key stands for everything.
func (f *Feed[K]) put(keys []K) {
	var everything K
	f.mu.Lock()
	defer f.mu.Unlock()
	some := false
	for _, k := range keys {
		switch {
		case k == everything:
			f.all, some = true, true
		case !f.wanted(k) || f.all || f.seen[k]:
		case len(f.keys) == FeedMax:
			f.all, some = true, true
		default:
			f.keys, f.seen[k], some = append(f.keys, k), true, true
		}
	}
	if f.all {
		f.keys = nil
		clear(f.seen)
	}
	if !some {
		return
	}
	select {
	case f.woken <- struct{}{}:
	default: // a pending value means the same
	}
}
