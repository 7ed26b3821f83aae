// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// watchdog says in the log where the worker is when it has been in one place for long, from its
// start to its end: in a call of the host's driver that doesn't return. Nothing else can be done
// about such a call, and without this nobody would know which it is.
type watchdog struct {
	turns  atomic.Uint64 // counted by the loop now and then
	asleep atomic.Bool   // the worker waits for something to do
	log    atomic.Pointer[logrus.Entry]
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

// start begins to watch. The returned function ends it.
func (d *watchdog) start(log *logrus.Entry) (stop func()) {
	d.log.Store(log)
	ticker, quit := time.NewTicker(watchPeriod), make(chan struct{})
	go d.watch(ticker.C, quit, d.report)
	return func() {
		ticker.Stop()
		close(quit)
	}
}

// report logs the stacks of all goroutines, the loop's among them.
func (d *watchdog) report() {
	stacks := make([]byte, 64<<10)
	stacks = stacks[:runtime.Stack(stacks, true)]
	d.log.Load().WithField("stacks", string(stacks)).Warnf(
		"the worker has been in one call of the driver for %v", watchLooks*watchPeriod)
}
