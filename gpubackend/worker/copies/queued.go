// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// queuedCopies is when the copies of pinned memory that were queued should be over. Until then the
// worker polls, as the guest's thread does that waits for them (polling.c): asleep, it would have
// to be woken for the command after them.
type queuedCopies struct{ until time.Time }

// shortCopy is over before the worker would sleep.
const shortCopy = 256 << 10

func (q *queuedCopies) add(bytes uint64) {
	if bytes < shortCopy {
		return
	}
	if now := time.Now(); q.until.Before(now) {
		q.until = now
	}
	q.until = q.until.Add(time.Duration(bytes / wire.QueuedBytesPerUs * 1000))
}

// goOn says whether they should be under way still.
func (q *queuedCopies) goOn(now time.Time) bool { return now.Before(q.until) }
