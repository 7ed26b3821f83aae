// SPDX-License-Identifier: Apache-2.0

// Package place keeps a VM's device memory where an arbiter wants it: on the GPU, or out of it
// while other VMs have their turn (package residency). It orders the VM to be suspended and resumed
// (package suspend), and sets how much it may have meanwhile. Without an arbiter there is no bound,
// and a VM that is out comes back by itself.
//
// # Who owns what
//
// A VM knows the device by the functions of its Config, and its workers by interface Worker. It
// owns the last order, how far that is obeyed, and which workers lack how much.
//
// # Who may lie
//
// Workers: about what they lack. Each one's claim is bounded, and forgotten when it ends.
//
// # Files
//
//	place.go   what the arbiter is told
//	orders.go  what it orders
package place

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// Times.
const (
	// returnAfter is how long an arbiter may be away before a VM that is out comes back.
	returnAfter = 2 * time.Second
	// returnAgain is the time between two tries of that.
	returnAgain = 5 * time.Second
	// tellPause is the time between two messages to the arbiter.
	tellPause = 2 * time.Millisecond
)

// mostLacking is the most that one worker can lack room for, in bytes.
const mostLacking = 1 << 48

// Suspension is what moves the VM's memory: a *suspend.Suspension.
type Suspension interface {
	Suspend(tell func(suspend.Progress)) (suspend.Moved, error)
	Resume(tell func(suspend.Progress)) (suspend.Moved, error)
	Status() suspend.Status
}

// Worker is a worker of the VM. Values are compared: two for the same worker must be equal.
type Worker interface {
	// Ended says whether it has ended.
	Ended() bool
	// TryAgain tells it that what it lacked room for may fit now; or, with a reason, that it won't.
	TryAgain(why string)
}

// Config is what a VM needs. Its functions may take locks under which no method of the VM is
// called.
type Config struct {
	Suspension Suspension
	// Out says that the VM is out by order, which another process has obeyed. Note notes that it
	// may be, for a later process; nil: there won't be one.
	Out     bool
	Note    func(ordered bool)
	Holds   func() map[string]uint64 // device memory in bytes, by kind, of what isn't out
	Total   func() uint64            // how much of the GPU can be had, in bytes; 0: not known
	SetRoom func(bytes uint64)       // bounds what workers may have; 0: nothing does
	// Tell tells the arbiter where the memory is; nil: there is none.
	Tell  func(*link.Place)
	Guard func(what string, f func()) (done bool)
	Log   *logrus.Entry
}

// VM is where a VM's memory is, and is to be.
type VM struct {
	config Config
	moves  chan struct{} // has something while the VM is moved; taken before mu

	mu      sync.Mutex
	order   link.Order
	obeyed  uint64 // serial of the last order that was obeyed, or couldn't be
	obeying bool   // obey runs
	moving  bool   // an order is under way
	out     bool   // the VM is suspended by order
	work    bool   // it has had work since it was last ordered out
	alone   bool   // the arbiter is away
	back    *time.Timer
	lacking map[Worker]uint64 // bytes that workers lack room for

	telling, changed bool // tellAll runs; there is something new to tell
}

// New is a VM whose memory is on the GPU, unless it is out by order.
func New(c Config) *VM {
	return &VM{config: c, out: c.Out, lacking: map[Worker]uint64{}, moves: make(chan struct{}, 1)}
}

// errTurns is the answer to a user who suspends or resumes a VM that is out by order.
var errTurns = errors.New("the VM is out by memory-mode=swap, and comes in again when its turn " +
	"comes: paracuda set memory-mode=off has it stay then")

// MayChange says why the VM's owner can't suspend or resume it.
func (v *VM) MayChange() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.out || v.moving {
		return errTurns
	}
	return nil
}

// Work says that a VM that is out has work for the GPU.
func (v *VM) Work() {
	v.mu.Lock()
	v.work = true
	v.mu.Unlock()
	v.tell()
}

// Lacks says that a worker lacks room for some bytes, and waits for TryAgain.
func (v *VM) Lacks(w Worker, bytes uint64) {
	v.mu.Lock()
	v.lacking[w] = min(bytes, mostLacking)
	unbounded := v.alone || v.order.Room == 0
	v.mu.Unlock()
	if unbounded { // by now there is no bound
		v.tryAgain("")
	}
	v.tell()
}

// tryAgain tells all workers that lack room to try again, or, with a reason, that there is none.
func (v *VM) tryAgain(why string) {
	v.mu.Lock()
	lacking := v.lacking
	v.lacking = map[Worker]uint64{}
	v.mu.Unlock()
	for w := range lacking {
		w.TryAgain(why)
	}
	if len(lacking) > 0 {
		v.tell()
	}
}

// lack is for how much workers that haven't ended lack room.
func (v *VM) lack() (sum uint64) {
	v.mu.Lock()
	lacking := maps.Clone(v.lacking)
	v.mu.Unlock()
	for w, bytes := range lacking {
		if !w.Ended() {
			sum += bytes
			continue
		}
		v.mu.Lock()
		delete(v.lacking, w)
		v.mu.Unlock()
	}
	return sum
}

// Place is where the VM's memory is.
func (v *VM) Place() *link.Place {
	status, lack := v.config.Suspension.Status(), v.lack()
	p := link.Place{Have: status.Image, Total: v.config.Total()}
	for kind, bytes := range v.config.Holds() {
		p.Have += bytes
		if kind != ledger.Names[ledger.Window] {
			p.Stays += bytes
		}
	}
	if lack > 0 {
		p.Want = p.Have + lack
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	p.Out, p.Work, p.Serial = v.out, v.out && v.work || lack > 0, v.obeyed
	p.Stopped = status.State != suspend.Running && !v.out && !v.moving
	return &p
}

// tell tells the arbiter where the VM's memory is, soon.
func (v *VM) tell() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changed = true
	if v.telling || v.config.Tell == nil {
		return
	}
	v.telling = true
	go v.config.Guard("telling the arbiter", v.tellAll)
}

func (v *VM) tellAll() {
	for {
		v.mu.Lock()
		if v.telling = v.changed; !v.changed {
			v.mu.Unlock()
			return
		}
		v.changed = false
		v.mu.Unlock()
		v.config.Tell(v.Place())
		time.Sleep(tellPause) // workers may have much to say
	}
}
