// SPDX-License-Identifier: Apache-2.0

package control

import "time"

// Late are requests of a control queue that was stopped before they were answered. The
// driver won't ask again: they are answered when the queue goes on where it stopped.
type Late struct {
	base    uint16 // of the queue
	open    int
	heads   []uint16
	done    chan answer
	dropped chan struct{}
}

// Drop is for another driver's queue.
func (l *Late) Drop() {
	close(l.dropped)
	go func() {
		for range l.open {
			<-l.done
		}
	}()
}

// Open says whether requests are still to be answered.
func (l *Late) Open() bool { return l != nil && l.open > 0 }

// Nothing says that no request was taken that isn't answered.
func (l *Late) Nothing() bool { return l.open == 0 && len(l.heads) == 0 }

// For returns them if they are those of a queue that goes on there. Otherwise they are dropped.
func (l *Late) For(base uint16) *Late {
	if l == nil || l.base == base {
		return l
	}
	l.Drop()
	return nil
}

// lateLook is how often it is looked whether requests wait for what may never come.
const lateLook = 10 * time.Millisecond

// finishAll answers what was taken, but for requests that wait for processes which don't end, or
// take too long.
func (c *Queue) finishAll() {
	timer := time.NewTimer(c.Exit)
	defer timer.Stop()
	look := time.NewTicker(lateLook)
	defer look.Stop()
	for c.open > int(c.Parked.Load()) {
		select {
		case a := <-c.done:
			c.finish(a)
		case <-timer.C:
			return
		case <-look.C:
		}
	}
}
