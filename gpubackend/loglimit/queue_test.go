// SPDX-License-Identifier: Apache-2.0

package loglimit

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// stuck is a log that nobody reads until it is released.
type stuck struct {
	released chan struct{}
	text     strings.Builder
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.released
	return s.text.Write(b)
}

// TestNobodyWaitsForTheReader: what is too much is lost, and told once the log is read; the rest is
// there, in its order.
func TestNobodyWaitsForTheReader(t *testing.T) {
	to, lost := &stuck{released: make(chan struct{})}, atomic.Uint64{}
	q := NewQueue(to, func(n uint64) { lost.Add(n) })
	const flood, size = 3 * maxQueued >> 10, 1 << 10
	line := []byte("")
	for i := range flood {
		line = fmt.Appendf(line[:0], "line %*d\n", size-6, i)
		if n, err := q.Write(line); n != len(line) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	close(to.released)
	q.Close()
	lines := strings.Split(strings.TrimSuffix(to.text.String(), "\n"), "\n")
	// Besides those that wait in the queue, some had been taken from it to be written.
	if n := uint64(len(lines)); n < flood/3 || n > flood*2/3 || n+lost.Load() != flood {
		t.Errorf("%d lines written, %d lost, of %d", n, lost.Load(), flood)
	}
	last := -1
	for _, line := range lines {
		var n int
		if _, err := fmt.Sscan(strings.TrimPrefix(line, "line "), &n); err != nil || n <= last {
			t.Fatalf("%q after line %d", line, last)
		}
		last = n
	}
	if _, err := q.Write([]byte("late\n")); err != nil || !strings.HasSuffix(to.text.String(),
		"\nlate\n") {
		t.Errorf("a line after the end: %v, %q", err, to.text.String())
	}
}

// TestEndWithoutAReader: a process ends although nobody reads its log.
func TestEndWithoutAReader(t *testing.T) {
	to := &stuck{released: make(chan struct{})}
	q := NewQueue(to, func(uint64) {})
	for range 2 {
		if _, err := q.Write([]byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	q.Close()
	if _, err := q.Write([]byte("late\n")); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < lastLines {
		t.Errorf("it ends after %v: the reader has %v", took, lastLines)
	}
	close(to.released)
	<-q.done
	if got := to.text.String(); got != "line\nline\n" {
		t.Errorf("%q", got)
	}
}
