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

// drop forgets them: the queue is now another driver's.
func (l *unanswered) drop() {
	close(l.dropped)
	go func() {
		for range l.open {
			<-l.done
		}
	}()
}

// isOpen says whether requests still wait for an answer.
func (l *unanswered) isOpen() bool { return l != nil && l.open > 0 }

// nothing says whether all requests that were taken are answered.
func (l *unanswered) nothing() bool { return l.open == 0 && len(l.heads) == 0 }

// at returns them if the queue goes on at their place. Otherwise they are dropped.
func (l *unanswered) at(base uint16) *unanswered {
	if l == nil || l.base == base {
		return l
	}
	l.drop()
	return nil
}

// lateLook is the time between two looks whether requests wait for something that may never come.
const lateLook = 10 * time.Millisecond

// finishAll answers all requests that were taken, except those that wait for processes that don't
// end, and those that take too long.
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
