package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"berth/internal/durable"
)

// termFile keeps the highest term in the agent's folder.
const termFile = "term"

// staleTermError is the error for an answer from a deposed leader.
type staleTermError struct{ got, seen uint64 }

func (e *staleTermError) Error() string {
	return fmt.Sprintf("answer of term %d, and term %d was seen already", e.got, e.seen)
}

// fence admits answers with the highest term seen so far or a higher one, which is
// written to disk before it takes effect. It may be used from several goroutines.
type fence struct {
	root *os.Root // nil: in memory only

	mu   sync.Mutex // guards term, and is held while it is written: once per election
	term uint64
}

// openFence reads the highest term seen from root, which may be nil.
func openFence(root *os.Root) (*fence, error) {
	f := &fence{root: root}
	if root == nil {
		return f, nil
	}
	text, err := root.ReadFile(termFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		f.term, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the highest term seen: %w", err)
	}
	return f, nil
}

// admitTerm returns a staleTermError for a term below the highest seen, and reports
// whether term is higher than any before.
func (f *fence) admitTerm(term uint64) (raised bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if term < f.term {
		return false, &staleTermError{got: term, seen: f.term}
	}
	if term == f.term {
		return false, nil
	}
	if f.root != nil {
		if err := durable.ReplaceIn(f.root, termFile, 0o600, fmt.Appendln(nil, term)); err != nil {
			return false, fmt.Errorf("keeping term %d: %w", term, err)
		}
	}
	f.term = term
	return true, nil
}

// highestTerm returns the highest term seen.
func (f *fence) highestTerm() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.term
}
