// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/moves"
)

// A VM has no mover before a copy needs one, since its context takes GPU memory. The first such
// copy asks for it, and waits as for earlier work, while other calls go on. Later copies wait for
// the same one. When there was no copy for long, it is given up.

// reach is the way to the mover.
type reach struct {
	mover  moves.Mover       // nil: it has to be asked for
	broken gpubackend.Result // it is gone: nothing is copied any more
	gone   bool              // it answers no more: what it was lent isn't asked back
	asked  uint64            // how often it was asked for
	told   uint64            // how many of these were answered
}

// reachable says whether a copy can use the mover, and asks for it if nobody has. NotReady: soon.
func (t *Copies) reachable(op *operation) gpubackend.Result {
	r := &t.reach
	switch {
	case r.broken != gpubackend.Success:
		return r.broken
	case r.mover != nil:
		op.asked = 0
		return gpubackend.Success
	case op.asked > 0 && op.asked <= r.told:
		return gpubackend.DeviceUnavailable
	case op.asked > 0:
		return gpubackend.NotReady
	}
	if r.asked == r.told {
		r.asked++
		t.NeedMover()
	}
	op.asked = r.asked
	return gpubackend.NotReady
}

// lostOr is what the mover's error says of the GPU, if that is broken or gone; otherwise it is r.
func lostOr(r gpubackend.Result, err error) gpubackend.Result {
	if lost := gpubackend.ResultIn(err); lost.OfGPU() {
		return lost
	}
	return r
}

// Reaches says whether there is a mover.
func (t *Copies) Reaches() bool { return t.reach.mover != nil }

// AskAgain asks for the mover once more, if copies wait for it.
func (t *Copies) AskAgain() {
	if t.reach.mover == nil && t.reach.asked != t.reach.told {
		t.NeedMover()
	}
}

// Connect is told that there is a mover. There must be none yet.
func (t *Copies) Connect(m moves.Mover) { t.reach.mover, t.reach.told = m, t.reach.asked }

// Refused is told that there is no mover. Copies that wait for it fail; the next one asks again.
func (t *Copies) Refused(err error) {
	if t.reach.mover != nil {
		return // it was asked for twice
	}
	t.Log.WithError(err).Error("there is no mover: copies that need it fail")
	t.reach.told = t.reach.asked
}

// Release gives up the mover, with all that was lent to it and the staging memory, and says whether
// there was one that no copy uses now. The next copy asks for it again. One that is gone, as it
// answers no more, isn't asked to give anything back.
func (t *Copies) Release(gone bool) bool {
	r := &t.reach
	if r.mover == nil || r.broken != gpubackend.Success || t.Active() {
		return false
	}
	r.gone = gone
	t.Recall()
	t.unstage()
	if err := r.mover.Close(); err != nil {
		t.Log.WithError(err).Warn("give up the mover")
	}
	r.mover, r.gone = nil, false
	return true
}

// FD is readable when Poll has something to tell, while Active.
func (t *Copies) FD() int { return t.reach.mover.FD() }
