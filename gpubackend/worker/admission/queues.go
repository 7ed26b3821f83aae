// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
)

// Bounds of what a stream has on the GPU.
const (
	minSubmissions = 2  // that it may always have, unless one is as much as it may have
	maxUnits       = 16 // between fences
	// ripePart is the part of what a stream may have that is between two fences, so that the stream
	// gets more before it is empty.
	ripePart = 4
	// maxQueues is how many idle streams are remembered.
	maxQueues = 1024
)

// If nothing has ended for so many times the prediction, and for so long, as many pass as a stream
// may have. If that doesn't help, more pass after twice that time.
const (
	lateTimes   = 4
	lateAfter   = 20 * time.Millisecond
	lateDoubles = 6 // at most
)

// Stream is a stream of the driver's. Its context tells apart the default streams.
type Stream struct {
	Context uint64
	Native  gpubackend.Stream
}

// queues is what is on the GPU, for each stream.
type queues struct {
	estimates estimates
	all       map[Stream]*queue
	opened    []*queue // with admitted work that the device doesn't have yet
	active    []*queue // with stretches
	flying    int      // stretches
	extra     int      // how many submissions may pass although streams are full
	lates     int      // how often in a row that was needed
	progress  time.Time
	spare     [][]prediction // of stretches that have ended
}

func newQueues() queues { return queues{all: map[Stream]*queue{}} }

// queue is the work of one stream.
type queue struct {
	stream      Stream
	open        stretch // admitted, and not marked by a fence yet
	stretches   []stretch
	submissions int           // of all these
	predicted   time.Duration // for them
	passed      time.Time     // when a stretch was last seen to have ended
}

// stretch is work between two fences.
type stretch struct {
	fence       fences.Fence
	begun       time.Time
	predictions []prediction
	submissions int
	predicted   time.Duration
}

// prediction is the prediction for submissions of one kind that follow one another in a stretch.
type prediction struct {
	*estimate
	predicted time.Duration // for each of them
}

// of returns the queue of a stream.
func (s *queues) of(stream Stream) *queue {
	q := s.all[stream]
	if q == nil {
		if len(s.all) >= maxQueues {
			s.sweep()
		}
		q = &queue{stream: stream}
		s.all[stream] = q
	}
	return q
}

// sweep forgets idle streams.
func (s *queues) sweep() {
	for stream, q := range s.all {
		if q.submissions == 0 {
			delete(s.all, stream)
		}
	}
}

// full says whether a queue has too much work to get a submission like e now: as much as it may
// have, or one submission that takes as long.
func (q *queue) full(bound time.Duration, e *estimate) bool {
	if q.submissions > 0 && q.predicted >= bound {
		return true
	}
	return q.submissions >= minSubmissions &&
		(q.predicted+e.took > bound || len(q.stretches) >= maxUnits)
}

// late says whether nothing has ended for so long that the work may be waiting for work behind the
// stop.
func (s *queues) late(q *queue, now time.Time) bool {
	if now.Sub(s.progress) <= max(lateTimes*q.predicted, lateAfter<<s.lates) {
		return false
	}
	s.progress, s.lates, s.extra = now, min(s.lates+1, lateDoubles), maxUnits
	return true
}

// add predicts a submission that was admitted.
func (s *queues) add(q *queue, e *estimate) {
	u := &q.open
	if u.submissions == 0 {
		s.opened = append(s.opened, q)
		if n := len(s.spare); n > 0 {
			u.predictions, s.spare = s.spare[n-1], s.spare[:n-1]
		}
	}
	p, n := prediction{e, e.took}, len(u.predictions)
	if n == 0 || u.predictions[n-1] != p {
		u.predictions = append(u.predictions, p)
	}
	u.submissions++
	u.predicted += e.took
	q.submissions++
	q.predicted += e.took
}

// ripe says whether a fence is due.
func (s *queues) ripe(bound time.Duration) bool {
	for _, q := range s.opened {
		if q.open.predicted >= bound/ripePart {
			return true
		}
	}
	return false
}

// close puts fences after what the device has got. Work for which there is no fence isn't counted.
func (s *queues) close(c *Config) {
	capturing, now := c.Capturing(), c.Now()
	for _, q := range s.opened {
		u := q.open
		q.open = stretch{}
		result := gpubackend.NotReady
		if !capturing {
			if result = c.Contexts.Set(q.stream.Context, true); result == gpubackend.Success {
				u.fence, result = c.Fences.Mark(q.stream.Native)
			}
		}
		if result != gpubackend.Success {
			q.drop(&u)
			continue
		}
		if len(q.stretches) == 0 {
			s.active = append(s.active, q)
		}
		if s.flying == 0 {
			s.progress = now
		}
		u.begun = now
		q.stretches = append(q.stretches, u)
		s.flying++
	}
	s.opened = s.opened[:0]
}

// drop forgets a stretch of a queue's.
func (q *queue) drop(u *stretch) {
	q.submissions -= u.submissions
	q.predicted -= u.predicted
}

// poll looks for stretches that have ended.
func (s *queues) poll(f fences.Interface, now time.Time) {
	kept := s.active[:0]
	for _, q := range s.active {
		n := 0
		for n < len(q.stretches) && f.Passed(q.stretches[n].fence) != gpubackend.NotReady {
			n++
		}
		if n > 0 {
			s.progress, s.lates, s.extra = now, 0, 0
			s.flying -= n
			s.end(q, n, now)
		}
		if len(q.stretches) > 0 {
			kept = append(kept, q)
		}
	}
	clear(s.active[len(kept):])
	s.active = kept
}

// end takes off a queue's first n stretches, which have ended by now, and learns how long they
// took.
func (s *queues) end(q *queue, n int, now time.Time) {
	begun := q.stretches[0].begun
	if q.passed.After(begun) {
		begun = q.passed
	}
	q.passed = now
	var predicted time.Duration
	for i := range q.stretches[:n] {
		predicted += q.stretches[i].predicted
	}
	wrong := float64(now.Sub(begun)) / float64(predicted)
	for i := range q.stretches[:n] {
		u := &q.stretches[i]
		for _, p := range u.predictions {
			p.learn(time.Duration(float64(p.predicted) * wrong))
		}
		q.drop(u)
		if len(s.spare) < maxUnits {
			s.spare = append(s.spare, u.predictions[:0])
		}
	}
	left := copy(q.stretches, q.stretches[n:])
	clear(q.stretches[left:])
	q.stretches = q.stretches[:left]
}

// forget forgets all that is on the GPU, which nobody counts any more.
func (s *queues) forget(f fences.Interface) {
	for _, q := range s.active {
		for i := range q.stretches {
			f.Drop(q.stretches[i].fence)
		}
	}
	clear(s.all)
	clear(s.opened)
	clear(s.active)
	s.opened, s.active = s.opened[:0], s.active[:0]
	s.flying, s.extra, s.lates = 0, 0, 0
}
