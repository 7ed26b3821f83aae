// SPDX-License-Identifier: Apache-2.0

// Package exports keeps objects that outlive the guest process that made them. The guest's driver
// has handles of them, one for each descriptor of its programs; this process has their files.
// While a program is saved, the memory that it has made is in its record, and there is no file.
//
// # Who owns what
//
// The device owns Exports, which own the files of all offers and handles. The driver gets a handle
// only from EXPORT, and each is looked up; handles of another VM belong to another device process.
// A worker offers an object, unasked, and then tells its guest, whose driver asks for a handle.
// Goroutines that read workers' messages take the lock, so nobody waits while holding it.
//
// # Who may lie
//
// Workers and the guest. An offer that makes no sense is ignored. Offers, handles and their memory
// are bounded, for each worker and in total. A VM that comes from another device process brings the
// handles of its driver, and says which program has what each of them names: that is bounded, too.
//
// # Files
//
// exports.go, holders.go (several workers have the same memory), kept.go (they outlive this
// process), saved.go (their programs go to a file, or to another process), owed.go (what programs
// import meanwhile).
package exports

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Exports are those of one VM. All methods may be called at any time.
type Exports struct {
	mu      sync.Mutex
	offers  map[offer]*exported // of workers that run
	handles map[uint32]*exported
	holders map[offer]handover.Object // memory that workers have, and have offered
	bytes   uint64                    // of the objects that have handles
	last    uint32                    // handle
	ids     uint64                    // given to objects
	imports uint32                    // given to imports
	bounds  exportBounds
	held    bool             // workers, which stand still, are about to be saved
	owing   map[*Worker]bool // those to which objects are owed
	begins  map[int]*Worker  // by channel, from a record: if it ends, another one may go on

	importing sync.RWMutex // locked while held becomes true; taken before mu

	store  Store           // keeps all this for a later process; nil: nothing is kept
	slots  [Slots]bool     // that have files
	before map[int]*Worker // of an earlier process, by channel, that haven't rejoined
}

// Held is how many handles there are, and how much memory they hold.
func (e *Exports) Held() (handles int, bytes uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.handles), e.bytes
}

// Worker is what is known about a worker, which its address identifies. The zero value is a worker
// that has offered nothing. Exports.mu guards it.
type Worker struct {
	offers, handles int  // of its objects: offers that nobody exported, and handles
	holds           int  // of holders
	ended           bool // it is gone
	channel         int  // that it serves

	waits bool   // all that its program imports is owed to it, until HandOwed
	owed  []owed // what its program has imported meanwhile
}

// offer names an object: its worker, and its number there.
type offer struct {
	worker *Worker
	number uint32
}

// exported is an object that is offered or has handles.
type exported struct {
	handover.Object
	worker  *Worker // nil once it is gone
	file    int     // -1 for none
	slot    int     // in which the file is kept; -1: it isn't kept
	handles int

	awaited bool // its worker goes on from a record, and offers it again
	gone    bool // its worker has it no more
}

// giveUp returns the file, which is about to be closed. Programs may still be owed the object.
func (x *exported) giveUp() (file int) {
	file, x.file = x.file, -1
	return file
}

// lost says whether it is memory that nobody can have for now.
func (x *exported) lost() bool { return x.Kind == handover.ObjectMemory && x.file < 0 }

// Bounds on what is exported: each object takes a descriptor of this process.
const (
	maxHandles = 1 << 12
	maxOffers  = 1 << 6
)

// exportBounds are those, or less where this process may have few files: a quarter for handles, a
// quarter for offers.
type exportBounds struct {
	handles      int
	handlesOfOne int // of objects of one worker
	offers       int // of one worker that have no handle
}

func boundsOf(files int) exportBounds {
	handles := max(2, min(maxHandles, files/4))
	return exportBounds{handles, handles / 2, max(1, min(maxOffers, files/4/wire.MaxChannels))}
}

// New makes the exports of a process that may have this many descriptors.
func New(files int) *Exports {
	return &Exports{offers: map[offer]*exported{}, handles: map[uint32]*exported{},
		holders: map[offer]handover.Object{}, before: map[int]*Worker{},
		owing: map[*Worker]bool{}, begins: map[int]*Worker{}, bounds: boundsOf(files)}
}

// Receive takes a message that a worker sends unasked. An offer that makes no sense is ignored.
func (e *Exports) Receive(w *Worker, m *handover.Message, fds []int) {
	o := m.Object
	if m.Kind == handover.KindWithdraw && o != nil {
		handover.CloseFiles(append(fds, e.withdraw(w, o.Number)))
		return
	}
	if o == nil || m.Files != (handover.Files{Object: o.Kind == handover.ObjectMemory}) ||
		o.Kind != handover.ObjectMemory && o.Kind != handover.ObjectPool {
		handover.CloseFiles(fds)
		return
	}
	x := &exported{Object: *o, worker: w, file: m.Name(fds).Object}
	handover.CloseFiles(e.add(x))
}

// add enters an offer and returns the files that aren't needed. An offer that is there already
// stays, unless it was awaited.
func (e *Exports) add(x *exported) (unused []int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := offer{x.worker, x.Number}
	e.noteHolder(x)
	if y := e.offers[key]; y != nil {
		return []int{e.again(y, x)}
	}
	if x.worker.ended || e.isBeginning(x.worker) {
		return []int{x.file}
	}
	var oldest *exported
	if x.worker.offers >= e.bounds.offers {
		oldest = e.dropOldest(x.worker)
		unused = append(unused, oldest.file)
	}
	e.ids++
	x.ID, x.Own, x.Import = e.ids, false, 0
	x.worker.offers++
	e.keepFile(x)
	e.offers[key] = x
	e.note(oldest)
	return unused
}

// withdraw forgets an object that is gone in its worker, and returns its file or -1. If there are
// handles of it, it stays.
func (e *Exports) withdraw(w *Worker, number uint32) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropHolder(offer{w, number})
	x := e.offers[offer{w, number}]
	if x == nil {
		return -1
	}
	if x.handles > 0 {
		file, unused, passed := e.passOn(x)
		x.gone = x.gone || !passed
		e.note(unused)
		return file
	}
	delete(e.offers, offer{w, number})
	w.offers--
	e.note(x)
	return x.file
}

// dropOldest forgets a worker's oldest offer that has no handle, and returns it.
func (e *Exports) dropOldest(w *Worker) *exported {
	var oldest *exported
	for key, x := range e.offers {
		if key.worker == w && x.handles == 0 && (oldest == nil || x.ID < oldest.ID) {
			oldest = x
		}
	}
	delete(e.offers, offer{w, oldest.Number})
	w.offers--
	return oldest
}

// Claim gives an object that a worker offers a handle. If the worker has left since it was looked
// up, the object is that of what stands for it. limit bounds the memory of all objects that have
// handles; 0: no bound.
func (e *Exports) Claim(w *Worker, number uint32, limit uint64) (handle, status uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if next := e.saved(w.channel); w.ended && next != nil {
		w = next
	}
	x := e.offers[offer{w, number}]
	if x == nil {
		return 0, wire.StatusNoObject
	}
	return e.give(x, limit)
}

func (e *Exports) give(x *exported, limit uint64) (handle, status uint32) {
	if len(e.handles) >= e.bounds.handles || x.worker.handles >= e.bounds.handlesOfOne {
		return 0, wire.StatusLimit
	}
	if x.handles == 0 {
		if limit != 0 && (x.Bytes > limit || e.bytes > limit-x.Bytes) {
			return 0, wire.StatusLimit
		}
		e.bytes += x.Bytes
		x.worker.offers--
	}
	for e.last++; e.last == 0 || e.handles[e.last] != nil; e.last++ {
	}
	x.handles++
	x.worker.handles++
	e.handles[e.last] = x
	e.note()
	return e.last, wire.StatusOk
}

// Take describes the object of a handle for a worker that imports it, and returns a descriptor of
// its own; -1 for none.
func (e *Exports) Take(
	handle uint32, by *Worker,
) (o handover.Object, file int, status uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.handles[handle]
	if x == nil || x.lost() {
		return o, -1, wire.StatusNoObject
	}
	e.imports++
	return e.take(x, by, e.imports)
}

// take is Take of an object, under a number.
func (e *Exports) take(
	x *exported, by *Worker, number uint32,
) (o handover.Object, file int, status uint32) {
	if file = -1; x.file >= 0 {
		var err error
		if file, err = unix.FcntlInt(uintptr(x.file), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return o, -1, wire.StatusLimit
		}
	}
	o = x.Object
	o.Own, o.Import = x.worker == by, number
	e.note()
	return o, file, wire.StatusOk
}

// Release ends a handle, and with the last one its object.
func (e *Exports) Release(handle uint32) (status uint32) {
	e.mu.Lock()
	x := e.handles[handle]
	if x == nil {
		e.mu.Unlock()
		return wire.StatusNoObject
	}
	delete(e.handles, handle)
	var unused []int
	if e.drop(x) {
		unused = []int{x.giveUp()}
		e.note(x)
	} else {
		e.note()
	}
	e.mu.Unlock()
	handover.CloseFiles(unused)
	return wire.StatusOk
}

// drop takes a handle from an object and says whether it was the last.
func (e *Exports) drop(x *exported) (last bool) {
	if x.worker != nil {
		x.worker.handles--
	}
	if x.handles--; x.handles > 0 {
		return false
	}
	e.bytes -= x.Bytes
	if x.worker != nil {
		delete(e.offers, offer{x.worker, x.Number})
	}
	return true
}

// Ended forgets a worker that is gone, except objects that have handles. One that had only begun
// from a record leaves all to the next one.
func (e *Exports) Ended(w *Worker) {
	if e.leftAgain(w) {
		return
	}
	e.mu.Lock()
	w.ended = true
	e.owesNothing(w)
	e.dropHolders(w)
	var unused []int
	var gone []*exported
	for key, x := range e.offers {
		if key.worker != w {
			continue
		}
		if file, merged, passed := e.passOn(x); passed {
			unused, gone = append(unused, file), append(gone, merged)
			continue
		}
		delete(e.offers, key)
		x.worker, x.awaited = nil, false
		if x.handles == 0 {
			unused, gone = append(unused, x.file), append(gone, x)
		}
	}
	e.note(gone...)
	e.mu.Unlock()
	handover.CloseFiles(unused)
}

// Clear ends all handles: those of a driver that is gone. What programs had that were saved, or
// begin again, goes with them.
func (e *Exports) Clear() {
	e.mu.Lock()
	var unused []int
	var gone []*exported
	for handle, x := range e.handles {
		delete(e.handles, handle)
		if e.drop(x) {
			unused, gone = append(unused, x.giveUp()), append(gone, x)
		}
	}
	before := e.before
	e.before = map[int]*Worker{}
	clear(e.begins)
	e.note(gone...)
	e.mu.Unlock()
	handover.CloseFiles(unused)
	for _, w := range before {
		e.Ended(w)
	}
}
