// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// queuedCopies is when the queued copies of pinned memory should be over. Until then the worker
// polls, as the guest's waiting thread does (polling.c): if it slept, it would have to be woken for
// the next command.
type queuedCopies struct{ until time.Time }

// shortCopy is the size of a copy that is over before the worker would sleep.
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

// goOn says whether they should still be under way.
func (q *queuedCopies) goOn(now time.Time) bool { return now.Before(q.until) }
