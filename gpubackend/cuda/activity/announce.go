// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// Announcement is a write that a stream was given behind its work.
type Announcement struct {
	Stream gpubackend.Stream
	Addr   uint64 // where to; one address has one announcement at a time
	Value  uint32
	behind bool // the stream was given more work since, or another announcement
}

// Announce notes an announcement, in place of one at the same address that hasn't arrived. The
// write is work of the stream, too: only the last announcement is its end.
func (a *Activity) Announce(n Announcement) {
	a.announced = slices.DeleteFunc(a.announced,
		func(o Announcement) bool { return o.Addr == n.Addr })
	n.Stream = Unified(n.Stream)
	for i := range a.announced {
		if a.announced[i].Stream == n.Stream {
			a.announced[i].behind = true
		}
	}
	a.announced = append(a.announced, n)
	a.recent = false // the next touch looks at it
}

// Arrive takes the announcement of value at addr. It says whether its stream had no more work and
// is idle now. A thread may have been answered, and have asked for the next announcement, before
// this one is noticed.
func (a *Activity) Arrive(addr uint64, value uint32) bool {
	i := slices.IndexFunc(a.announced,
		func(n Announcement) bool { return n.Addr == addr && n.Value == value })
	if i < 0 {
		return false
	}
	n := a.announced[i]
	a.announced = slices.Delete(a.announced, i, i+1)
	a.recent = false
	if n.behind {
		return false
	}
	a.Done(n.Stream)
	a.quiet[a.quieted%len(a.quiet)] = announced{n.Stream, true}
	a.quieted++
	return true
}

// announced is a stream whose end was announced. The driver may say for a moment that it is not
// ready: the announcement is followed by the driver's own mark.
type announced struct {
	stream gpubackend.Stream
	valid  bool
}

// IsQuiet says whether s had no work since its end was announced.
func (a *Activity) IsQuiet(s gpubackend.Stream) bool {
	return slices.Contains(a.quiet[:], announced{Unified(s), true})
}

// disturb notes work behind announcements. The legacy stream waits for others' work, too.
func (a *Activity) disturb(s gpubackend.Stream) {
	for i := range a.announced {
		if a.announced[i].Stream == s {
			a.announced[i].behind = true
		}
	}
	for i := range a.quiet {
		if q := a.quiet[i].stream; q == s || q == gpubackend.DefaultStream {
			a.quiet[i].valid = false
		}
	}
}
