// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is a bound on how long a test waits for what must come. It passes by the clock while
// there is a processor for everybody, and hardly while somebody waits for one: a busy machine makes
// no test fail.
type patience struct {
	most       time.Duration
	mu         sync.Mutex
	begin      time.Time
	waited     time.Duration // by processes for processors, when it began
	waitedTime func() time.Duration
	now        func() time.Time
}

// busiest is how many times longer it takes at most, on a machine that is always busy.
const busiest = 8

func patienceOf(most time.Duration) *patience {
	p := &patience{most: most, now: time.Now, waitedTime: pressure}
	p.renew()
	return p
}

// renew begins anew.
func (p *patience) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin, p.waited = p.now(), p.waitedTime()
}

// over says whether it has passed.
func (p *patience) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed := p.now().Sub(p.begin)
	return passed-(p.waitedTime()-p.waited) > p.most || passed > busiest*p.most
}

// withPatience is context.WithTimeout by that.
func withPatience(parent context.Context, most time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	go patienceOf(most).end(ctx, cancel)
	return ctx, cancel
}

// end calls a function when it has passed, if the context is there still.
func (p *patience) end(ctx context.Context, end func()) {
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if p.over() {
				end()
				return
			}
		}
	}
}

// awaits says whether something is closed before it passes.
func awaits(done <-chan struct{}, most time.Duration) bool {
	ctx, cancel := withPatience(context.Background(), most)
	defer cancel()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// pressure is for how long something has waited for a processor since the machine's start; 0 where
// the kernel doesn't count that.
func pressure() time.Duration {
	text, _ := os.ReadFile("/proc/pressure/cpu")
	return pressureOf(string(text))
}

func pressureOf(text string) time.Duration {
	var us int64
	for _, word := range strings.Fields(text) {
		if _, err := fmt.Sscanf(word, "total=%d", &us); err == nil {
			break // the first line's: some wait
		}
	}
	return time.Duration(us) * time.Microsecond
}

// until waits for something, or fails.
func until(t *testing.T, most time.Duration, what string, happened func() bool) {
	t.Helper()
	for p := patienceOf(most); !happened(); time.Sleep(100 * time.Millisecond) {
		if p.over() {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// TestPatience: what a busy machine takes doesn't count, up to a bound.
func TestPatience(t *testing.T) {
	now, waited := time.Unix(1000, 0), 7*time.Second
	p := &patience{most: time.Minute, begin: now, waited: waited,
		now: func() time.Time { return now }, waitedTime: func() time.Duration { return waited }}
	pass := func(d, busy time.Duration) bool {
		now, waited = now.Add(d), waited+busy
		return p.over()
	}
	if pass(30*time.Second, 0) || pass(29*time.Second, 0) {
		t.Error("it is over before its time")
	}
	if pass(time.Minute, time.Minute) {
		t.Error("a busy minute counts")
	}
	if !pass(2*time.Second, 0) {
		t.Error("it isn't over after its time")
	}
	if pass(-2*time.Second, 0) || !pass(busiest*time.Minute, busiest*time.Minute) {
		t.Error("a machine that is always busy makes it endless")
	}
	const said = "some avg10=99.46 avg60=99.24 avg300=98.82 total=12300551436\n" +
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=3\n"
	if got := pressureOf(said); got != 12300551436*time.Microsecond || pressureOf("") != 0 {
		t.Errorf("a machine has waited for %v", got)
	}
}
