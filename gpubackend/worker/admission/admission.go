// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
)

// Contexts makes the context of a stream current.
type Contexts interface {
	Set(handle uint64, optional bool) gpubackend.Result
}

// Config is what an Admission needs.
type Config struct {
	Gate     *gate.Worker
	Fences   fences.Interface
	Contexts Contexts
	// Capturing says whether work may be recorded instead of done: then there are no fences.
	Capturing func() bool
	// Idle asks the driver whether all work is done.
	Idle func() bool
	// Count adds to a counter.
	Count func(handover.Counter, uint64)
	Now   func() time.Time
}

// Verdict says whether a command is executed now.
type Verdict uint8

// The answers. All but Pass stop the ring.
const (
	Pass   Verdict = iota
	Closed         // the gate is closed
	Full           // the stream has enough to do
)

// Admission decides for one worker at its gate.
type Admission struct {
	Config
	gated   bool    // the gate wasn't free when a batch began last
	stopped Verdict // why the ring, or a copy, has stopped since
	queues
	attendance attendance

	unfinished bool      // work may be on the GPU
	counted    time.Time // GPU time is counted up to here
	busy       time.Time // work was seen to go on
}

// New returns the Admission of a worker that has done nothing yet.
func New(c Config) *Admission { return &Admission{Config: c, queues: newQueues()} }

// Begin is called before each batch of commands. It says whether commands that give the GPU work
// must be admitted.
func (a *Admission) Begin() (gated bool) {
	a.stopped = Pass
	if a.Gate.Free() {
		if a.gated {
			a.gated = false
			a.attendance.admitted(&a.Config)
			a.forget(a.Fences)
		}
		return false
	}
	if !a.gated {
		a.gated = true
		if a.unfinished {
			a.Gate.Hold()
			a.attendance.flies(&a.Config)
		}
	}
	return true
}

// Gated is what Begin has returned last.
func (a *Admission) Gated() bool { return a.gated }

// Open says whether the gate is open.
func (a *Admission) Open() bool { return a.Gate.State().Open }

// Stopped says why the ring has stopped since Begin.
func (a *Admission) Stopped() Verdict { return a.stopped }

// InFlight says whether the arbiter waits for the worker's work.
func (a *Admission) InFlight() bool { return a.gated && a.Gate.InFlight() }

// Unfinished says whether work may be on the GPU.
func (a *Admission) Unfinished() bool { return a.unfinished }

// Admit says whether a command that gives a stream work may be executed.
func (a *Admission) Admit(s Stream, k Kind) Verdict {
	if a.enter() && a.takes(s, k) {
		return Pass
	}
	return a.stopped
}

// May says whether work that was admitted may go on with another submission.
func (a *Admission) May() bool { return a.Gate.Free() || a.enter() }

// enter goes through the gate if it is open.
func (a *Admission) enter() bool {
	// A worker that is already in flight has noted that before this look.
	s, flying := a.Gate.State(), a.Gate.InFlight()
	if !s.Open || !flying && !a.Gate.Enter() {
		a.stopped = Closed
		a.Gate.Wait(true)
		a.attendance.waits(&a.Config)
		return false
	}
	a.attendance.admitted(&a.Config)
	if !s.Free {
		a.attendance.begins(&a.Config, flying)
	}
	return true
}

// takes says whether a stream may have more, and notes the prediction of what it gets.
func (a *Admission) takes(s Stream, k Kind) bool {
	if a.Capturing() {
		return true
	}
	bound, e := a.Gate.State().InFlight, a.estimates.of(k)
	q := a.of(s)
	if q.full(bound, e) && a.extra == 0 {
		a.poll()
		if q.full(bound, e) && !a.late(q, a.Now()) {
			a.stopped = Full
			return false
		}
	}
	a.add(q, e)
	a.extra = max(0, a.extra-1)
	return true
}

// MayAnnounce says whether the device may be asked to write an answer itself, which is work, too.
func (a *Admission) MayAnnounce() bool {
	s := a.Gate.State()
	return s.Open && (s.Free || a.Gate.InFlight())
}

// Ripe says whether what was admitted should get to the device, and Submitted be called.
func (a *Admission) Ripe() bool {
	return len(a.opened) > 0 && a.ripe(a.Gate.State().InFlight)
}

// Submitted is called when the device has all that was admitted.
func (a *Admission) Submitted() {
	if len(a.opened) > 0 {
		a.close(&a.Config)
	}
}

// Executed is called after each batch: there may be work on the GPU.
func (a *Admission) Executed() {
	if !a.unfinished {
		a.unfinished = true
		a.counted = a.Now()
	}
}

// poll looks for fences that have passed.
func (a *Admission) poll() { a.queues.poll(a.Fences, a.Now()) }

// Busy notes that work is going on.
func (a *Admission) Busy(now time.Time) {
	if a.unfinished {
		a.busy = now
		a.count(now)
	}
}

// Look is called when nothing has happened since a time. It asks whether all work is done, and
// tells the arbiter.
func (a *Admission) Look(now, since time.Time) {
	a.attendance.looks(&a.Config)
	if before := a.flying; before > 0 {
		a.poll()
		if a.stopped == Full && a.flying < before { // the ring goes on
			a.stopped = Pass
			a.Busy(now)
			return
		}
	}
	if a.unfinished {
		if a.flying > 0 || !a.Idle() {
			a.Busy(now)
			return
		}
		if a.busy.After(since) {
			since = a.busy
		}
		a.count(since)
		a.unfinished = false
	}
	a.leave()
}

// leave tells the arbiter that no work is in flight.
func (a *Admission) leave() {
	if a.stopped == Pass {
		a.attendance.rests()
		a.Gate.Rest()
	} else if a.Gate.InFlight() {
		a.Gate.Leave()
	}
}

// Standstill is called when the worker stands still: all work is done, and no more is begun.
func (a *Admission) Standstill() {
	a.stopped = Pass
	a.attendance.looks(&a.Config)
	a.Busy(a.Now())
	a.unfinished = false
	a.forget(a.Fences)
	a.leave()
}

func (a *Admission) count(until time.Time) {
	if d := until.Sub(a.counted); d > 0 {
		a.Count(handover.GPUTime, uint64(d))
		a.counted = until
	}
}
