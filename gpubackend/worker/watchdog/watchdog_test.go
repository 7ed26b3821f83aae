// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"testing"
	"time"
)

func TestWatchdog(t *testing.T) {
	var d Watchdog
	var l tally
	reports := 0
	look := func(n int) {
		for range n {
			if d.look(&l) {
				reports++
			}
		}
	}
	look(1)
	d.Turn()
	look(watchLooks) // the first sees the turn
	d.Turn()
	look(1)
	d.SetAsleep(true)
	look(10)
	d.SetAsleep(false)
	look(10) // a stall, said once
	d.Turn()
	look(1 + watchLooks) // another
	if reports != 2 {
		t.Fatalf("%d reports, want 2", reports)
	}
}

// TestTicksAreLooks: the goroutine looks at each tick, and ends when quit is closed.
func TestTicksAreLooks(t *testing.T) {
	var d Watchdog
	ticks, quit, ended := make(chan time.Time), make(chan struct{}), make(chan struct{})
	reports := make(chan struct{}, 1)
	go func() {
		defer close(ended)
		d.watch(ticks, quit, func() { reports <- struct{}{} })
	}()
	for range watchLooks {
		ticks <- time.Time{}
	}
	<-reports
	close(quit)
	<-ended
}
