// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"runtime"
	"sync/atomic"
	"time"
)

// watchdog says in the log where the loop is when it has been in one place for long: in a call of the host's driver that
// doesn't return. Nothing else can be done about such a call, and without this nobody would know which it is.
type watchdog struct {
	turns  atomic.Uint64 // counted by the loop now and then
	asleep atomic.Bool   // the loop waits for something to do
}

// How often the watchdog looks, and how many looks without a turn make a stall.
const (
	watchPeriod = 5 * time.Second
	watchLooks  = 3
)

// turn says that the loop goes on.
func (d *watchdog) turn() { d.turns.Add(1) }

// watch runs until quit is closed. Each stall is reported once.
func (d *watchdog) watch(ticks <-chan time.Time, quit <-chan struct{}, report func()) {
	last, looks := d.turns.Load(), 0
	for {
		select {
		case <-ticks:
		case <-quit:
			return
		}
		if now := d.turns.Load(); now != last || d.asleep.Load() {
			last, looks = now, 0
			continue
		}
		if looks++; looks == watchLooks {
			report()
		}
	}
}

// reportStall logs the stacks of all goroutines, the loop's among them.
func (w *Worker) reportStall() {
	stacks := make([]byte, 64<<10)
	stacks = stacks[:runtime.Stack(stacks, true)]
	w.log.WithField("stacks", string(stacks)).Warnf("the worker has been in one call of the driver for %v", watchLooks*watchPeriod)
}
