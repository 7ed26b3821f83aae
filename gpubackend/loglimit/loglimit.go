// SPDX-License-Identifier: Apache-2.0

// Package loglimit bounds what a process writes to the host's log: a guest can cause most lines, as
// often as it likes and with text of its own.
//
// All lines of a logger are bounded, unless they are marked by Keep. Each message has its own bound
// below the bound of all, so that a flood of one doesn't hide another. A line that is allowed may
// be long: then later ones may be fewer. Values are cut to a length here, and quoted by logrus'
// formatter. How many lines were held back is logged during a flood, after it, and by Close. With a
// Queue, nobody waits for the log's reader.
package loglimit

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// Rate is how much may be written: Burst at once, and PerSecond in the long run.
type Rate struct{ PerSecond, Burst float64 }

// Limits are the bounds of one process.
type Limits struct {
	Lines Rate          // of all messages
	Same  Rate          // lines of one message
	Bytes Rate          // of all lines
	Tell  time.Duration // how often the lines that were held back are told
}

// Default is enough for all errors that nobody causes on purpose.
var Default = Limits{
	Lines: Rate{2, 100}, Same: Rate{0.1, 20}, Bytes: Rate{4 << 10, 64 << 10},
	Tell: 10 * time.Second,
}

// Times is n times as much.
func (l Limits) Times(n float64) Limits {
	for _, r := range []*Rate{&l.Lines, &l.Same, &l.Bytes} {
		r.PerSecond, r.Burst = n*r.PerSecond, n*r.Burst
	}
	return l
}

// Clock is the time, which tests can replace.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once, later. stop prevents that.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }
func (realClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// maxMessages bounds the messages that have a bound of their own. The others share one.
const maxMessages = 64

// Limiter bounds the lines of one logger. It is the logger's formatter: it formats lines that it
// holds back to nothing.
type Limiter struct {
	limits Limits
	clock  Clock
	inner  logrus.Formatter
	log    *logrus.Entry // where it says what it held back

	mu     sync.Mutex
	lines  bucket
	bytes  bucket
	same   map[string]*message
	held   uint64
	stop   func() bool // the timer that tells; nil while there is nothing to tell
	closed bool
}

type message struct {
	bucket bucket
	held   uint64
}

// Install bounds the lines of log's logger, which is not in use yet. A nil clock is the real one.
func Install(log *logrus.Entry, limits Limits, clock Clock) *Limiter {
	if clock == nil {
		clock = realClock{}
	}
	l := &Limiter{limits: limits, clock: clock, inner: log.Logger.Formatter, log: Keep(log),
		same: map[string]*message{}}
	log.Logger.SetFormatter(l)
	log.Logger.SetOutput(nonEmpty{log.Logger.Out})
	return l
}

type keep struct{}

// Keep marks lines that are never held back: a guest can't cause them, or only with the process's
// end.
func Keep(log *logrus.Entry) *logrus.Entry {
	return log.WithContext(context.WithValue(context.Background(), keep{}, true))
}

// Format implements logrus.Formatter.
func (l *Limiter) Format(e *logrus.Entry) ([]byte, error) {
	if e.Context != nil && e.Context.Value(keep{}) != nil {
		return l.inner.Format(bounded(e))
	}
	if !l.admit(e.Message) {
		return nil, nil
	}
	b, err := l.inner.Format(bounded(e))
	l.mu.Lock()
	l.bytes.tokens -= float64(len(b))
	l.mu.Unlock()
	return b, err
}

// admit says whether a line may be written, and counts it if not.
func (l *Limiter) admit(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, m := l.clock.Now(), l.message(text)
	l.lines.fill(now, l.limits.Lines)
	l.bytes.fill(now, l.limits.Bytes)
	m.bucket.fill(now, l.limits.Same)
	if l.lines.tokens >= 1 && m.bucket.tokens >= 1 && l.bytes.tokens > 0 {
		l.lines.tokens--
		m.bucket.tokens--
		return true
	}
	m.held++
	if l.held++; l.stop == nil && !l.closed {
		l.stop = l.clock.AfterFunc(l.limits.Tell, l.tell)
	}
	return false
}

func (l *Limiter) message(text string) *message {
	if m := l.same[text]; m != nil {
		return m
	}
	if len(l.same) >= maxMessages {
		text = ""
	}
	if l.same[text] == nil {
		l.same[text] = &message{}
	}
	return l.same[text]
}

// tell logs how many lines were held back since it last did so.
func (l *Limiter) tell() {
	l.mu.Lock()
	held, most, text := l.held, uint64(0), ""
	for t, m := range l.same {
		if m.held > most {
			most, text = m.held, t
		}
		m.held = 0
	}
	l.held, l.stop = 0, nil
	l.mu.Unlock()
	if held > 0 {
		l.log.WithFields(logrus.Fields{"lines": held,
			"most_often": text}).Warn("lines were held back, since there were too many")
	}
}

// Close logs what was held back and not yet told. Lines may still come; those that are held back
// then aren't told.
func (l *Limiter) Close() {
	l.mu.Lock()
	l.closed = true
	if l.stop != nil {
		l.stop()
	}
	l.mu.Unlock()
	l.tell()
}

// bucket is how much may be written now. It may be negative.
type bucket struct {
	tokens float64
	last   time.Time
}

func (b *bucket) fill(now time.Time, r Rate) {
	if b.last.IsZero() {
		b.tokens = r.Burst
	} else if d := now.Sub(b.last); d > 0 {
		b.tokens = min(r.Burst, b.tokens+r.PerSecond*d.Seconds())
	}
	b.last = now
}
