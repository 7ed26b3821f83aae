// SPDX-License-Identifier: Apache-2.0

package control

import "time"

// unanswered are requests of a control queue that was stopped before they were answered. The driver
// won't ask again: they are answered when the queue goes on where it stopped.
type unanswered struct {
	base    uint16 // of the queue
	open    int
	heads   []uint16
	done    chan answer
	dropped chan struct{}
}

// drop is for another driver's queue.
func (l *unanswered) drop() {
	close(l.dropped)
	go func() {
		for range l.open {
			<-l.done
		}
	}()
}

// isOpen says whether requests are still to be answered.
func (l *unanswered) isOpen() bool { return l != nil && l.open > 0 }

// nothing says that no request was taken that isn't answered.
func (l *unanswered) nothing() bool { return l.open == 0 && len(l.heads) == 0 }

// at returns them if they are those of a queue that goes on there. Otherwise they are dropped.
func (l *unanswered) at(base uint16) *unanswered {
	if l == nil || l.base == base {
		return l
	}
	l.drop()
	return nil
}

// lateLook is how often it is looked whether requests wait for what may never come.
const lateLook = 10 * time.Millisecond

// finishAll answers what was taken, but for requests that wait for processes which don't end, or
// take too long.
func (c *serving) finishAll() {
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
