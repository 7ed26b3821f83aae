// SPDX-License-Identifier: Apache-2.0

// Package watchdog watches a worker: if it has been in one call of the host's driver for long, it
// logs where; if it has far more of the host's memory than its guest process may make it take, it
// ends the worker.
//
// # Who owns what
//
// A worker has one Watchdog from its start to its end, whose goroutines share only atomics with the
// loop.
package watchdog

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// Watchdog logs where the worker is when it has been in one place for long: in a call of the host's
// driver that doesn't return. Nothing else can be done about such a call, and without this nobody
// would know which one it is.
type Watchdog struct {
	turns  atomic.Uint64 // counted by the loop now and then
	log    atomic.Pointer[logrus.Entry]
	asleep atomic.Bool // the worker waits for something to do
}

// How often the watchdog looks, and how many looks without a turn make a stall.
const (
	watchPeriod = 5 * time.Second
	watchLooks  = 3
)

// Turn says that the loop has made a turn.
func (d *Watchdog) Turn() { d.turns.Add(1) }

// SetAsleep says whether the worker waits for something to do. Then no turn is missed.
func (d *Watchdog) SetAsleep(yes bool) { d.asleep.Store(yes) }

// watch runs until quit is closed. Each stall is reported once.
func (d *Watchdog) watch(ticks <-chan time.Time, quit <-chan struct{}, report func()) {
	l := tally{last: d.turns.Load()}
	for {
		select {
		case <-ticks:
		case <-quit:
			return
		}
		if d.look(&l) {
			report()
		}
	}
}

// tally is what was seen of the loop so far.
type tally struct {
	last  uint64 // turn
	still int    // looks since it last moved or slept
}

// look says whether the loop has just been still for too long.
func (d *Watchdog) look(l *tally) (stalled bool) {
	if now := d.turns.Load(); now != l.last || d.asleep.Load() {
		l.last, l.still = now, 0
		return false
	}
	l.still++
	return l.still == watchLooks
}

// Start begins to watch. The returned function ends it.
func (d *Watchdog) Start(log *logrus.Entry) (stop func()) {
	d.Log(log)
	ticker, quit := time.NewTicker(watchPeriod), make(chan struct{})
	go d.watch(ticker.C, quit, d.report)
	return func() {
		ticker.Stop()
		close(quit)
	}
}

// Log says where to log.
func (d *Watchdog) Log(log *logrus.Entry) { d.log.Store(log) }

// report logs the stacks of all goroutines, the loop's among them.
func (d *Watchdog) report() {
	stacks := make([]byte, 64<<10)
	stacks = stacks[:runtime.Stack(stacks, true)]
	d.log.Load().WithField("stacks", string(stacks)).Warnf(
		"the worker has been in one call of the driver for %v", watchLooks*watchPeriod)
}
