// SPDX-License-Identifier: Apache-2.0

package loglimit

import (
	"io"
	"sync"
	"time"
)

// maxQueued is how many bytes may wait for the log's reader. Further lines are lost.
const maxQueued = 1 << 20

// lastLines is how long Close waits for the reader.
const lastLines = time.Second

// Queue writes lines for others, who don't wait: the log's reader may be slow, or not read at all.
type Queue struct {
	to   io.Writer
	done chan struct{}
	lost func(lines uint64) // logs how many lines were lost; writes to the queue

	mu      sync.Mutex
	come    sync.Cond // there is a line, or the end
	lines   [][]byte
	bytes   int // of them
	missing uint64
	closed  bool
}

// NewQueue makes a queue for a writer. lost is called, once a line can be written again, with how
// many were lost before.
func NewQueue(to io.Writer, lost func(lines uint64)) *Queue {
	q := &Queue{to: to, done: make(chan struct{}), lost: lost}
	q.come.L = &q.mu
	go q.write()
	return q
}

// Write takes a line, or loses it if too many wait. After Close it writes the line itself, unless
// lines still wait.
func (q *Queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		select {
		case <-q.done:
			return q.to.Write(line)
		default: // lost, and nobody is left to be told
		}
	case q.bytes+len(line) > maxQueued:
		q.missing++
	default:
		q.lines = append(q.lines, append([]byte(nil), line...))
		q.bytes += len(line)
		q.come.Signal()
	}
	return len(line), nil
}

func (q *Queue) write() {
	defer close(q.done)
	for {
		lines, missing := q.take()
		if lines == nil {
			return
		}
		for _, line := range lines {
			_, _ = q.to.Write(line)
		}
		if missing > 0 {
			q.lost(missing)
		}
	}
}

// take waits for lines and takes all, with how many were lost after them; nil: the end.
func (q *Queue) take() (lines [][]byte, missing uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.lines) == 0 && !q.closed {
		q.come.Wait()
	}
	lines, missing = q.lines, q.missing
	q.lines, q.bytes, q.missing = nil, 0, 0
	return lines, missing
}

// Close waits until all lines are written, but at most a second.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.come.Signal()
	q.mu.Unlock()
	select {
	case <-q.done:
	case <-time.After(lastLines):
	}
}
