// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"testing"
	"time"
)

// TestQueuedCopies: the times of copies add up, and those of the past don't count.
func TestQueuedCopies(t *testing.T) {
	var q queuedCopies
	if q.goOn(time.Now()) {
		t.Error("copies go on of which none was queued")
	}
	q.add(shortCopy - 1)
	if !q.until.IsZero() {
		t.Error("a short copy counts")
	}
	q.until = time.Now().Add(-time.Hour)
	before := time.Now()
	q.add(20 << 30)
	q.add(20 << 30)
	after := time.Now()
	if !q.goOn(before.Add(2 * time.Second)) {
		t.Error("40 GiB took less than two seconds")
	}
	if q.goOn(after.Add(3 * time.Second)) {
		t.Error("40 GiB took more than three seconds")
	}
}
