// SPDX-License-Identifier: Apache-2.0

package sleeping

import "time"

// quiet is a time in which nothing happens, and a guess when it ends: a program that waits for the
// GPU again and again waits about equally long each time.
type quiet struct {
	since time.Time     // zero: something happened just now
	idle  time.Duration // how long it was when the worker last looked
	waits bool          // calls waited then
	long  bool          // it was longer than the worker polls in any case
	last  time.Duration // how long the last such wait was
}

// The guess counts as right within this part of it, and this much more.
const (
	guessPart = 16
	guessMore = 100 * time.Microsecond
)

// goOn notes that nothing has happened, and returns for how long.
func (q *quiet) goOn(now time.Time, spin time.Duration, waits bool) time.Duration {
	if q.since.IsZero() {
		q.since = now
	}
	q.idle, q.waits = now.Sub(q.since), waits
	q.long = q.idle > spin
	return q.idle
}

// end notes that something has happened.
func (q *quiet) end() {
	if q.since.IsZero() {
		return
	}
	if q.waits && q.long {
		q.last = q.idle
	}
	q.since, q.waits = time.Time{}, false
}

// due says whether calls wait, and the last wait took about as long as this one has: then the
// worker polls, if the policy says so, for at most that long before and after.
func (q *quiet) due(spin time.Duration) bool {
	off := min(q.last/guessPart+guessMore, spin)
	return q.waits && q.idle > q.last-off && q.idle < q.last+off
}
