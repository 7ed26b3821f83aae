// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"sync"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// An arbiter may have the VM take turns with the GPU's memory: it orders the VM to be suspended and
// resumed (suspension.go), and says how much it may have meanwhile. While no arbiter is there
// nothing is bounded, and a VM that is out comes back by itself.

// Times.
const (
	// returnAfter is how long an arbiter may be away before a VM that is out comes back.
	returnAfter = 2 * time.Second
	// returnAgain is between two tries of that.
	returnAgain = 5 * time.Second
	// placePause is between two messages to the arbiter.
	placePause = 2 * time.Millisecond
)

// totalPart is the part of a real GPU's memory that its driver keeps for itself.
const totalPart = 64

// residence is what the arbiter wants, and what of it is done.
type residence struct {
	mu      sync.Mutex
	order   link.Order
	obeyed  uint64 // serial of the order that was obeyed last, or could not be
	obeying bool   // obey runs
	moving  bool   // an order is under way
	out     bool   // the VM is suspended by order
	work    bool   // although it has some
	alone   bool   // the arbiter is away
	back    *time.Timer
	waiting map[*workerProcess]uint64 // bytes that workers lack room for

	telling, changed bool // tellPlaces runs; there is something to tell
}

// errTurns is the answer to who suspends or resumes a VM that is out already.
var errTurns = errors.New("the VM is out by memory-mode=swap, and comes in again when its turn " +
	"comes: paracuda set memory-mode=off has it stay then")

// mayChange says why the VM's owner can't suspend or resume it.
func (r *residence) mayChange() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out || r.moving {
		return errTurns
	}
	return nil
}

// said takes what a worker says unasked.
func (d *Device) said(w *workerProcess, m *handover.Message, fds []int) {
	r := &d.residence
	switch m.Kind {
	case handover.KindWake:
		handover.CloseFiles(fds)
		r.mu.Lock()
		r.work = true
		r.mu.Unlock()
	case handover.KindRoom:
		handover.CloseFiles(fds)
		r.mu.Lock()
		r.waiting[w] = m.Bytes
		unbounded := r.alone || r.order.Room == 0
		r.mu.Unlock()
		if unbounded { // by now
			d.answerRoom("")
		}
	default:
		d.exports.Receive(&w.exports, m, fds)
		return
	}
	d.tellPlace()
}

// answerRoom has all workers that lack room try again, or not, because of what.
func (d *Device) answerRoom(why string) {
	r := &d.residence
	r.mu.Lock()
	waiting := r.waiting
	r.waiting = map[*workerProcess]uint64{}
	r.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range waiting {
		if d.workers[w] {
			w.tell(d.log, &handover.Message{Kind: handover.KindRoom, Error: why}, nil)
		}
	}
	if len(waiting) > 0 {
		d.tellPlace()
	}
}

// Place is where the VM's memory is.
func (d *Device) Place() *link.Place {
	var p link.Place
	status := d.suspension.Status()
	p.Have = status.Image
	d.mu.Lock()
	kinds := d.holdings.All()
	lacking := d.residence.lacking(func(w *workerProcess) bool { return d.workers[w] })
	d.mu.Unlock()
	for kind, bytes := range kinds {
		p.Have += bytes
		if kind != ledger.Names[ledger.Window] {
			p.Stays += bytes
		}
	}
	if lacking > 0 {
		p.Want = p.Have + lacking
	}
	if d.config.GPU == "cuda" && d.config.Ledger != nil {
		total := d.config.Ledger.Total()
		p.Total = total - total/totalPart
	}
	r := &d.residence
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Out, p.Work, p.Serial = r.out, r.work || lacking > 0, r.obeyed
	p.Stopped = status.State != suspend.Running && !r.out && !r.moving
	return &p
}

// lacking is how much workers lack room for that are there still.
func (r *residence) lacking(there func(*workerProcess) bool) (sum uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w, bytes := range r.waiting {
		if there(w) {
			sum += min(bytes, 1<<48)
		} else {
			delete(r.waiting, w)
		}
	}
	return sum
}

// tellPlace tells the arbiter where the VM's memory is, soon.
func (d *Device) tellPlace() {
	r := &d.residence
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = true
	if r.telling || d.config.Sharer == nil {
		return
	}
	r.telling = true
	go d.guard("telling the arbiter", d.tellPlaces)
}

func (d *Device) tellPlaces() {
	r := &d.residence
	for {
		r.mu.Lock()
		if r.telling = r.changed; !r.changed {
			r.mu.Unlock()
			return
		}
		r.changed = false
		r.mu.Unlock()
		d.config.Sharer.Stay(d.Place())
		time.Sleep(placePause) // workers may have much to say
	}
}

// Ordered takes an order of the arbiter's. It doesn't wait until it is obeyed.
func (d *Device) Ordered(o *link.Order) {
	r := &d.residence
	r.mu.Lock()
	before := r.order
	r.order = *o
	d.setRoom(r)
	d.beginObeying(r)
	r.mu.Unlock()
	switch {
	case o.Denials != before.Denials:
		d.answerRoom("the arbiter has no room for it")
	case o.Grants != before.Grants:
		d.answerRoom("")
	}
}

// beginObeying has an order obeyed that isn't yet. One that comes while no arbiter beats waits
// until it does. residence.mu is held.
func (d *Device) beginObeying(r *residence) {
	if s := r.order.Serial; s != 0 && s != r.obeyed && !r.obeying && !r.alone {
		r.obeying = true
		go d.guard("an order of the arbiter's", d.obey)
	}
}

// setRoom has the room hold that the arbiter has ordered. residence.mu is held.
func (d *Device) setRoom(r *residence) {
	switch {
	case d.config.Ledger == nil:
	case r.alone:
		d.config.Ledger.SetRoom(0)
	default:
		d.config.Ledger.SetRoom(r.order.Room)
	}
}

// obey obeys orders until there is no other.
func (d *Device) obey() {
	r := &d.residence
	for {
		r.mu.Lock()
		o := r.order
		if r.obeying = o.Serial != r.obeyed && !r.alone; !r.obeying {
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		_ = d.moveTo(o.Out)
		r.mu.Lock()
		r.obeyed = o.Serial
		r.mu.Unlock()
		d.tellPlace()
	}
}

// moveTo suspends the VM or resumes it, if it isn't so.
func (d *Device) moveTo(out bool) error {
	r := &d.residence
	r.mu.Lock()
	if r.out == out || r.moving {
		r.mu.Unlock()
		return nil
	}
	r.moving = true
	if out {
		r.work = false
	}
	r.mu.Unlock()
	move := d.suspension.Resume
	if out {
		move = d.suspension.Suspend
	}
	_, err := move(func(suspend.Progress) {})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moving = false
	if !errors.Is(err, suspend.ErrState) { // else it is its owner's
		r.out = d.suspension.State() == suspend.Suspended
	}
	return err
}

// Alone says whether the arbiter is away. Then nothing is bounded, and a VM that is out comes back.
func (d *Device) Alone(alone bool) {
	r := &d.residence
	r.mu.Lock()
	changed := r.alone != alone
	r.alone = alone
	if changed {
		d.setRoom(r)
		d.beginObeying(r)
	}
	if changed && alone {
		if r.back != nil {
			r.back.Stop()
		}
		r.back = time.AfterFunc(returnAfter, func() { d.guard("coming back", d.comeBack) })
	}
	r.mu.Unlock()
	if changed && alone {
		d.answerRoom("")
	}
}

// comeBack resumes a VM that is out, unless there is an arbiter again, and tries again if it can't.
func (d *Device) comeBack() {
	r := &d.residence
	r.mu.Lock()
	due := r.alone && (r.out || r.moving)
	r.mu.Unlock()
	if !due {
		return
	}
	d.log.Info("the arbiter is away: the VM, whose memory is out, comes back by itself")
	if err := d.moveTo(false); err != nil {
		d.log.WithError(err).Warnf("it can't: it tries again in %v", returnAgain)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alone && (r.out || r.moving) {
		r.back.Reset(returnAgain)
	}
}
