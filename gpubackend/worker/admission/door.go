// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// Streams finds the driver's stream that a command names, if it is known.
type Streams interface {
	Known(c *call.Call, handle uint64) gpubackend.Stream
}

// Door is where a worker passes the gate of its VM. If the VM has none, everything passes.
type Door struct {
	admission *Admission // nil: there is no gate
	streams   Streams
}

// NewDoor returns the door to a gate, or if a is nil one that is always open.
func NewDoor(a *Admission, s Streams) *Door { return &Door{a, s} }

// Begin is called before each batch of commands. It says whether those that give the GPU work must
// be admitted.
func (d *Door) Begin() (gated bool) { return d.admission != nil && d.admission.Begin() }

// Admits says, at a gate, whether a command is executed now. Otherwise it stays in the ring.
func (d *Door) Admits(c *call.Call) bool {
	if !c.Op.Works() {
		return true
	}
	s, k := d.workOf(c)
	return d.admission.Admit(s, k) == Pass
}

// workOf is the stream to which a command gives work, and the kind of work. For a bad handle the
// command's handler answers.
func (d *Door) workOf(c *call.Call) (Stream, Kind) {
	s, k := Stream{Context: c.Context}, Kind{Op: c.Op}
	if word, ok := c.Op.WorkStream(); ok {
		s.Native = d.streams.Known(c, c.Word(word))
	}
	switch c.Op {
	case gpubackend.OpGraphLaunch:
		a, _ := command.DecodeGraphLaunch(c.Words(), c.Command.Body)
		k.ID = a.HGraphExec
	case gpubackend.OpLaunchKernel:
		var a command.LaunchKernel
		if a.Decode(c.Words(), c.Command.Body) {
			k.ID = a.Function
			k.Shape = ShapeOf(
				[3]uint32{a.GridX, a.GridY, a.GridZ}, [3]uint32{a.BlockX, a.BlockY, a.BlockZ})
		}
	}
	return s, k
}

// May says whether work that was admitted may go on with another submission.
func (d *Door) May() bool { return d.admission == nil || d.admission.May() }

// MayAnnounce says whether the device may be asked to write an answer itself, which is work, too.
func (d *Door) MayAnnounce() bool { return d.admission == nil || d.admission.MayAnnounce() }

// Ripe says whether what was admitted should get to the device, and Submitted be called.
func (d *Door) Ripe() bool { return d.admission != nil && d.admission.Ripe() }

// Submitted is called when the device has all that was admitted.
func (d *Door) Submitted() {
	if d.admission != nil {
		d.admission.Submitted()
	}
}

// Executed is called after each batch: the device has all that was admitted, and may be at work.
func (d *Door) Executed() {
	if d.admission != nil {
		d.admission.Submitted()
		d.admission.Executed()
	}
}

// Stopped says whether commands have stayed in the ring since Begin.
func (d *Door) Stopped() bool { return d.admission != nil && d.admission.Stopped() != Pass }

// Closed says whether the worker waits for the gate to open.
func (d *Door) Closed() bool { return d.admission != nil && d.admission.Stopped() == Closed }

// Soon says whether the worker waits for the gate, which is about to open: there is no time to
// sleep.
func (d *Door) Soon() bool { return d.Closed() && d.admission.Gate.State().Soon }

// WaitFD is readable when the gate opens, if the worker waits for that; -1: it doesn't.
func (d *Door) WaitFD() int {
	if d.Closed() {
		return d.admission.Gate.FD()
	}
	return -1
}

// InFlight says whether the arbiter waits for the worker's work.
func (d *Door) InFlight() bool { return d.admission != nil && d.admission.InFlight() }

// Unfinished says whether work may be on the GPU.
func (d *Door) Unfinished() bool { return d.admission != nil && d.admission.Unfinished() }

// Standstill is called when the worker stands still: all work is done, and no more is begun.
func (d *Door) Standstill() {
	if d.admission != nil {
		d.admission.Standstill()
	}
}

// Pause is what is known while a worker has nothing to do.
type Pause struct {
	Now   time.Time
	Since time.Time     // nothing has happened since
	Idle  time.Duration // and that is so long ago
	Spin  time.Duration // for which it polls
	Waits bool          // calls wait for the GPU
	Held  bool          // commands stay in the ring, for whatever reason
}

// restAfter is how long a worker in its turn has nothing to do before the arbiter is told: a
// program that waits for its kernels gives the next one before that.
const restAfter = 10 * time.Microsecond

// Watch tells the arbiter when work has ended, while there is nothing else to do. A worker at a
// free gate asks the driver only before it sleeps.
func (d *Door) Watch(q Pause) {
	a := d.admission
	switch {
	case a == nil:
	case a.Gated() && a.Open() && !q.Held && q.Idle < min(q.Spin, restAfter):
	case a.Gated():
		a.Look(q.Now, q.Since)
	case q.Waits:
		a.Busy(q.Now)
	case q.Idle >= q.Spin:
		a.Look(q.Now, q.Since)
	}
}
