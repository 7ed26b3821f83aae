// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"
	"time"
)

func TestWatchdog(t *testing.T) {
	var d watchdog
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
	d.turn()
	look(watchLooks) // the first sees the turn
	d.turn()
	look(1)
	d.asleep.Store(true)
	look(10)
	d.asleep.Store(false)
	look(10) // a stall, said once
	d.turn()
	look(1 + watchLooks) // another
	close(quit)
	<-ended
	if reports != 2 {
		t.Fatalf("%d reports, want 2", reports)
	}
}
