// SPDX-License-Identifier: Apache-2.0

package device

import "time"

// lateAnswers are requests of a control queue that was stopped before they were answered. The
// driver won't ask again: they are answered when the queue goes on where it stopped.
type lateAnswers struct {
	base    uint16 // of the queue
	open    int
	heads   []uint16
	done    chan answer
	dropped chan struct{}
}

// drop is for another driver's queue.
func (l *lateAnswers) drop() {
	close(l.dropped)
	go func() {
		for range l.open {
			<-l.done
		}
	}()
}

// lateLook is how often it is looked whether requests wait for what may never come.
const lateLook = 10 * time.Millisecond

// finishAll answers what was taken, but for requests that wait for processes which don't end, or
// take too long.
func (c *control) finishAll() {
	timer := time.NewTimer(c.exit)
	defer timer.Stop()
	look := time.NewTicker(lateLook)
	defer look.Stop()
	for c.open > int(c.parked.Load()) {
		select {
		case a := <-c.done:
			c.finish(a)
		case <-timer.C:
			return
		case <-look.C:
		}
	}
}
