// SPDX-License-Identifier: Apache-2.0

package loglimit

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// manual is a clock that a test moves.
type manual struct {
	mu    sync.Mutex
	now   time.Time
	due   time.Time
	timer func()
}

func (c *manual) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manual) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due, c.timer = c.now.Add(d), f
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		was := c.timer != nil
		c.timer = nil
		return was
	}
}

func (c *manual) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	f := c.timer
	if f == nil || c.now.Before(c.due) {
		f = func() {}
	} else {
		c.timer = nil
	}
	c.mu.Unlock()
	f()
}

var limits = Limits{Lines: Rate{2, 10}, Same: Rate{1, 5}, Bytes: Rate{1000, 4000},
	Tell: 10 * time.Second}

type rig struct {
	*Limiter
	log   *logrus.Entry
	clock *manual
	out   bytes.Buffer
}

func newRig() *rig {
	r := &rig{clock: &manual{now: time.Unix(1000, 0)}}
	l := logrus.New()
	l.SetOutput(&r.out)
	l.SetFormatter(&logrus.TextFormatter{DisableColors: true, DisableTimestamp: true})
	r.log = l.WithField("role", "test")
	r.Limiter = Install(r.log, limits, r.clock)
	return r
}

// lines returns what was written since the last call.
func (r *rig) lines() []string {
	text := strings.TrimSuffix(r.out.String(), "\n")
	r.out.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

var told = regexp.MustCompile(`lines=(\d+) most_often=("[^"]*"|\S+) role=test$`)

// wantTold checks the one line about what was held back.
func (r *rig) wantTold(t *testing.T, lines int, most string) {
	t.Helper()
	got := r.lines()
	if len(got) != 1 {
		t.Fatalf("%d lines: %q", len(got), got)
	}
	m := told.FindStringSubmatch(got[0])
	if m == nil || m[1] != strconv.Itoa(lines) || strings.Trim(m[2], `"`) != most {
		t.Errorf("%q: want %d lines, most often %q", got[0], lines, most)
	}
}

func TestFloodOfOneMessage(t *testing.T) {
	r := newRig()
	for range 10000 {
		r.log.Warn("flood")
	}
	if got := r.lines(); len(got) != 5 {
		t.Fatalf("%d lines of one message", len(got))
	}
	r.log.Warn("another")
	if got := r.lines(); len(got) != 1 {
		t.Errorf("a flood hides another message: %q", got)
	}
	r.clock.advance(9 * time.Second)
	if got := r.lines(); len(got) != 0 {
		t.Errorf("told too early: %q", got)
	}
	r.clock.advance(time.Second)
	r.wantTold(t, 9995, "flood")
	r.clock.advance(time.Hour)
	if got := r.lines(); len(got) != 0 {
		t.Errorf("told twice: %q", got)
	}
	r.log.Warn("flood")
	if got := r.lines(); len(got) != 1 {
		t.Errorf("%d lines after the flood", len(got))
	}
	r.Close()
	if got := r.lines(); len(got) != 0 {
		t.Errorf("told at the end, without need: %q", got)
	}
}

func TestFloodOfManyMessages(t *testing.T) {
	r := newRig()
	written := 0
	for second := range 100 {
		for i := range 1000 {
			r.log.Warn(fmt.Sprint("message ", second, " ", i))
		}
		written += len(r.lines())
		r.clock.advance(time.Second)
	}
	if most := 10 + 2*100 + 100/10; written > most {
		t.Errorf("%d lines in 100 seconds, want %d at most", written, most)
	}
	if len(r.same) > maxMessages+1 {
		t.Errorf("%d messages are remembered", len(r.same))
	}
}

// TestEveryLineIsCounted, written or held back, whoever logs them.
func TestEveryLineIsCounted(t *testing.T) {
	r := newRig()
	const loggers, each = 8, 1000
	var group sync.WaitGroup
	for i := range loggers {
		group.Go(func() {
			for range each {
				r.log.Warn(fmt.Sprint("flood ", i))
			}
		})
	}
	group.Wait()
	written := len(r.lines())
	r.Close()
	m := told.FindStringSubmatch(r.lines()[0])
	if held, _ := strconv.Atoi(m[1]); held+written != loggers*each {
		t.Errorf("%d written and %d held back of %d", written, held, loggers*each)
	}
}

// TestLongLines are paid for by later ones.
func TestLongLines(t *testing.T) {
	r := newRig()
	r.log.WithField("stacks", strings.Repeat("x", 1<<20)).Warn("stall")
	got := r.lines()
	if len(got) != 1 || len(got[0]) < maxStack || len(got[0]) > maxStack+200 {
		t.Fatalf("%d lines, %d bytes", len(got), len(got[0]))
	}
	seconds := 0
	for ; len(r.lines()) == 0 && seconds < 1000; seconds++ {
		r.clock.advance(time.Second)
		r.out.Reset()
		r.log.Warn("next")
	}
	if most := len(got[0])/1000 + 1; seconds < most-6 || seconds > most+6 {
		t.Errorf("%d bytes are paid for in %d seconds", len(got[0]), seconds)
	}
}

// TestGuestsText is cut, and can't make a line of its own.
func TestGuestsText(t *testing.T) {
	r := newRig()
	hostile := "a\nlevel=error msg=\"GPU on fire\"\x1b[2J" + strings.Repeat("é", 1<<16)
	r.log.WithField("program", hostile).WithError(errors.New(hostile)).Warn(hostile)
	got := r.lines()
	if len(got) != 1 || len(got[0]) > 5*maxText {
		t.Fatalf("%d lines, %d bytes", len(got), len(got[0]))
	}
	if strings.ContainsAny(got[0], "\x1b\r") {
		t.Errorf("%q", got[0])
	}
	if want := fmt.Sprintf("... and %d bytes", len(hostile)-maxText); strings.Count(got[0],
		want) != 3 {
		t.Errorf("%q isn't said 3 times: %q", want, got[0])
	}
	program := map[string]any{"program": hostile}
	e := r.log.WithFields(program)
	e.Warn("once more")
	if e.Data["program"] != hostile {
		t.Error("the entry was changed")
	}
}

// TestKeptLines are all written, and cost the others nothing.
func TestKeptLines(t *testing.T) {
	r := newRig()
	for range 100 {
		Keep(r.log).WithField("n", 1).Info("end")
	}
	r.log.Warn("other")
	if got := r.lines(); len(got) != 101 {
		t.Errorf("%d lines", len(got))
	}
}

// TestCloseTells, and stops the timer.
func TestCloseTells(t *testing.T) {
	r := newRig()
	for range 7 {
		r.log.Warn("flood")
	}
	r.lines()
	r.Close()
	r.wantTold(t, 2, "flood")
	r.log.Warn("flood")
	if r.clock.timer != nil {
		t.Error("a timer runs after the end")
	}
}

func TestTimes(t *testing.T) {
	got, want := limits.Times(3), Limits{Rate{6, 30}, Rate{3, 15}, Rate{3000, 12000}, limits.Tell}
	if got != want {
		t.Errorf("%v", got)
	}
}

// TestRealClock: the timer runs.
func TestRealClock(t *testing.T) {
	done := make(chan struct{})
	realClock{}.AfterFunc(time.Nanosecond, func() { close(done) })
	<-done
	if (realClock{}).Now().IsZero() {
		t.Error("no time")
	}
}
