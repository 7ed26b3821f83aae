// SPDX-License-Identifier: Apache-2.0

package loglimit

import (
	"bufio"
	"bytes"
	"io"
	"sync"

	"github.com/sirupsen/logrus"
)

// Relay passes on what other processes log. They bound themselves, but there may be many, one after
// the other, and one that was taken over may not. Lines beyond a bound for all are counted and
// dropped.
type Relay struct {
	limits Limits
	clock  Clock
	to     io.Writer
	log    *logrus.Entry // where it says what it held back

	mu    sync.Mutex
	bytes bucket
	held  uint64
	stop  func() bool // the timer after which it says so
}

// NewRelay makes a relay that passes on as much as limits.Bytes says. A nil clock is the real one.
func NewRelay(to io.Writer, log *logrus.Entry, limits Limits, clock Clock) *Relay {
	if clock == nil {
		clock = realClock{}
	}
	return &Relay{limits: limits, clock: clock, to: to, log: Keep(log)}
}

// Children is a limit for a relay that is enough for what honest children log.
var Children = Limits{Bytes: Rate{8 << 10, 512 << 10}, Tell: Default.Tell}

// maxLine is how much is read at a time. A longer line is passed on or held back in pieces.
const maxLine = maxStack + 4<<10

// Copy passes on lines until there are no more.
func (r *Relay) Copy(from io.Reader) {
	lines := bufio.NewReaderSize(from, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 && r.admit(line) {
			_, _ = r.to.Write(line)
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

func (r *Relay) admit(line []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes.fill(r.clock.Now(), r.limits.Bytes)
	if r.bytes.tokens > 0 {
		r.bytes.tokens -= float64(len(line))
		return true
	}
	if bytes.HasSuffix(line, []byte("\n")) {
		r.held++
	}
	if r.stop == nil {
		r.stop = r.clock.AfterFunc(r.limits.Tell, r.tell)
	}
	return false
}

func (r *Relay) tell() {
	r.mu.Lock()
	held := r.held
	r.held, r.stop = 0, nil
	r.mu.Unlock()
	if held > 0 {
		r.log.WithField("lines", held).Warn(
			"lines of workers and mover were held back, since there were too many")
	}
}

// Close logs what was held back and not yet told.
func (r *Relay) Close() {
	r.mu.Lock()
	if r.stop != nil {
		r.stop()
	}
	r.mu.Unlock()
	r.tell()
}
