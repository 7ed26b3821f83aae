// SPDX-License-Identifier: Apache-2.0

package place

import (
	"errors"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// Ordered takes an order of the arbiter, which replaces the one before; the zero Order says that
// nothing is ordered any more. It doesn't wait until the order is obeyed.
func (v *VM) Ordered(o *link.Order) {
	v.mu.Lock()
	before := v.order
	v.order = *o
	v.setRoom()
	v.beginObeying()
	v.mu.Unlock()
	switch {
	case o.Denials > before.Denials:
		v.tryAgain("the arbiter has denied it: there is no room on the GPU")
	case o.Grants > before.Grants:
		v.tryAgain("")
	}
}

// beginObeying begins to obey an order, if there is one. While no arbiter beats, it waits. mu is
// held.
func (v *VM) beginObeying() {
	if v.due() && !v.obeying {
		v.obeying = true
		go v.config.Guard("an order of the arbiter", v.obey)
	}
}

// due says whether there is an order to obey. mu is held.
func (v *VM) due() bool {
	return v.order.Serial != 0 && v.order.Serial != v.obeyed && !v.alone
}

// setRoom puts the room in force that the arbiter has ordered. mu is held.
func (v *VM) setRoom() {
	room := v.order.Room
	if v.alone {
		room = 0
	}
	v.config.SetRoom(room)
}

// obey obeys orders until there is none.
func (v *VM) obey() {
	for {
		v.mu.Lock()
		o := v.order
		if v.obeying = v.due(); !v.obeying {
			v.mu.Unlock()
			return
		}
		v.mu.Unlock()
		v.moves <- struct{}{}
		v.say(o.Out, v.moveTo(o.Out))
		v.mu.Lock()
		v.obeyed = o.Serial
		v.mu.Unlock()
		<-v.moves
		v.tell()
	}
}

// say tells the operator why an order wasn't obeyed.
func (v *VM) say(out bool, err error) {
	where := "in"
	if out {
		where = "out"
	}
	if err != nil {
		v.config.Log.WithError(err).Warnf("memory-mode=swap: the VM's memory can't move %s: the "+
			"arbiter orders it again later", where)
	}
}

// moveTo suspends the VM or resumes it, if it isn't so already. moves has something, and mu isn't
// held.
func (v *VM) moveTo(out bool) error {
	v.mu.Lock()
	if v.out == out {
		v.mu.Unlock()
		return nil
	}
	v.moving = true
	if out {
		v.work = false
		v.note(true)
	}
	v.mu.Unlock()
	move := v.config.Suspension.Resume
	if out {
		move = v.config.Suspension.Suspend
	}
	_, err := move(func(suspend.Progress) {})
	state := v.config.Suspension.Status().State
	v.mu.Lock()
	defer v.mu.Unlock()
	v.moving = false
	if !errors.Is(err, suspend.ErrState) { // else its owner has suspended it
		v.out = state == suspend.Suspended
	}
	v.note(v.out)
	return err
}

// note notes whether the VM may be out by order. mu is held.
func (v *VM) note(ordered bool) {
	if v.config.Note != nil {
		v.config.Note(ordered)
	}
}

// Alone says whether the arbiter is away. Then there is no bound, and a VM that is out comes back.
func (v *VM) Alone(alone bool) {
	v.mu.Lock()
	changed := v.alone != alone
	v.alone = alone
	if changed {
		v.setRoom()
		v.beginObeying()
	}
	if changed && alone {
		if v.back != nil {
			v.back.Stop()
		}
		v.back = time.AfterFunc(returnAfter, func() { v.config.Guard("coming back", v.comeBack) })
	}
	v.mu.Unlock()
	if changed && alone {
		v.tryAgain("")
	}
}

// comeBack resumes a VM that is out, unless there is an arbiter again, and tries again if it can't.
func (v *VM) comeBack() {
	v.moves <- struct{}{} // an order may be under way that was begun before
	defer func() { <-v.moves }()
	v.mu.Lock()
	due := v.lost()
	v.mu.Unlock()
	if !due {
		return
	}
	v.config.Log.Info("the arbiter is away: the VM, whose memory is out, comes back by itself")
	if err := v.moveTo(false); err != nil {
		v.config.Log.WithError(err).Warnf("the VM can't come back: it tries again in %v",
			returnAgain)
	}
	v.tell() // an arbiter that has come meanwhile believes that the VM is out
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost() {
		v.back.Reset(returnAgain)
	}
}

// lost says whether the VM is out, and nobody is there to order it in. mu is held.
func (v *VM) lost() bool { return v.alone && v.out }
