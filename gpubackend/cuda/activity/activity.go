// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"iter"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// Activity knows which streams of a context may have work in flight. The zero value has none.
type Activity struct {
	streams []gpubackend.Stream // with work; few at a time
	marks   []Mark              // after the last work of streams that can't be asked any more
	last    gpubackend.Stream   // last one touched, which is in streams if recent is set
	recent  bool

	announced []Announcement // on their way: one for each thread that waits
	quiet     [4]announced   // the latest that arrived
	quieted   int
}

// Mark is an event after the work that a stream was given before it was destroyed or began to
// capture.
type Mark struct {
	Event  gpubackend.Event
	Stream gpubackend.Stream // 0 when it is gone
}

// Unified is s, with the two names of the legacy stream made one.
func Unified(s gpubackend.Stream) gpubackend.Stream {
	if s == gpubackend.LegacyStream {
		return gpubackend.DefaultStream
	}
	return s
}

// Has says whether a stream may have work in flight.
func (a *Activity) Has(s gpubackend.Stream) bool { return slices.Contains(a.streams, Unified(s)) }

// Touch notes that a stream was given work.
func (a *Activity) Touch(s gpubackend.Stream) {
	s = Unified(s)
	if a.recent && a.last == s {
		return
	}
	if !slices.Contains(a.streams, s) {
		a.streams = append(a.streams, s)
	}
	a.disturb(s)
	a.last, a.recent = s, true
}

// Streams are those that may have work in flight.
func (a *Activity) Streams() iter.Seq[gpubackend.Stream] { return slices.Values(a.streams) }

// Busy says whether any work may be in flight.
func (a *Activity) Busy() bool { return len(a.streams)+len(a.marks) > 0 }

// Only returns the one stream that may have work in flight; false if there are several or none, or
// if there are marks.
func (a *Activity) Only() (gpubackend.Stream, bool) {
	if len(a.streams) != 1 || len(a.marks) > 0 {
		return 0, false
	}
	return a.streams[0], true
}

// Latest returns a stream that may have work, the latest one that had none before.
func (a *Activity) Latest() (gpubackend.Stream, bool) {
	if len(a.streams) == 0 {
		return 0, false
	}
	return a.streams[len(a.streams)-1], true
}

// Done notes that a stream is idle. It says whether that is news.
func (a *Activity) Done(s gpubackend.Stream) bool {
	i := slices.Index(a.streams, Unified(s))
	if i < 0 {
		return false
	}
	a.streams[i] = a.streams[len(a.streams)-1]
	a.streams = a.streams[:len(a.streams)-1]
	a.recent = false
	return true
}

// MarkOf returns the event that marks what a stream was given, if it has one.
func (a *Activity) MarkOf(s gpubackend.Stream) (gpubackend.Event, bool) {
	i := slices.IndexFunc(a.marks, func(m Mark) bool { return m.Stream == s })
	if i < 0 {
		return 0, false
	}
	return a.marks[i].Event, true
}

// AddMark adds a mark.
func (a *Activity) AddMark(m Mark) { a.marks = append(a.marks, m) }

// Marks is how many there are.
func (a *Activity) Marks() int { return len(a.marks) }

// LatestMark is the event of the latest mark.
func (a *Activity) LatestMark() (gpubackend.Event, bool) {
	if len(a.marks) == 0 {
		return 0, false
	}
	return a.marks[len(a.marks)-1].Event, true
}

// DropMark forgets the latest mark.
func (a *Activity) DropMark() { a.marks = a.marks[:len(a.marks)-1] }

// Gone notes that a stream is gone: nobody may ask it any more, and another may get its handle.
func (a *Activity) Gone(s gpubackend.Stream) {
	a.Done(s)
	a.announced = slices.DeleteFunc(a.announced, func(n Announcement) bool { return n.Stream == s })
	a.disturb(s)
	for i := range a.marks {
		if a.marks[i].Stream == s {
			a.marks[i].Stream = 0
		}
	}
}
