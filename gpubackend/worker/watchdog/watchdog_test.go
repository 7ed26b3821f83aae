// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"testing"
	"time"
)

func TestWatchdog(t *testing.T) {
	var d Watchdog
	ticks, quit, ended := make(chan time.Time), make(chan struct{}), make(chan struct{})
	reports := 0
	go func() {
		defer close(ended)
		d.watch(ticks, quit, func() { reports++ })
	}()
	look := func(n int) {
		for range n {
			ticks <- time.Time{}
		}
	}
	look(1)
	d.Turn()
	look(watchLooks) // the first sees the turn
	d.Turn()
	look(1)
	d.Asleep.Store(true)
	look(10)
	d.Asleep.Store(false)
	look(10) // a stall, said once
	d.Turn()
	look(1 + watchLooks) // another
	close(quit)
	<-ended
	if reports != 2 {
		t.Fatalf("%d reports, want 2", reports)
	}
}
