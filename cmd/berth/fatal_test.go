package main

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// hung is a writer that hangs until it is closed.
type hung chan struct{}

func (h hung) Write(b []byte) (int, error) {
	<-h
	return len(b), nil
}

func TestLastWordsAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		begun := time.Now()
		lastWords(slog.New(slog.NewTextHandler(&said, nil)), errors.New("the disk hangs"))
		assert.Contains(t, said.String(), `level=ERROR msg="the node cannot go on" error="the disk hangs"`)
		assert.Zero(t, time.Since(begun))
	})
}

func TestLastWordsHangNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(hung)
		defer close(out)
		begun := time.Now()
		lastWords(slog.New(slog.NewTextHandler(out, nil)), errors.New("the disk hangs"))
		assert.Equal(t, lastWordsMax, time.Since(begun))
	})
}
