// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// A program may import while its worker is being saved, or is gone: the guest's driver has its
// answer at once, and the program's next call of the GPU waits, as the worker stands still. The
// object is owed to the worker that goes on, unless its last handle ends before.

// owed is an object that a program has imported while it had no worker.
type owed struct {
	number uint32
	object *exported
	again  bool // an earlier process may have handed it over
}

// maxOwed bounds how many a program can import meanwhile.
const maxOwed = 1 << 6

// Owe is Take for a program that is saved, or may be: the worker that goes on is handed the object.
// by is the worker that the channel has, or nil. Unless it owes, nothing is done.
func (e *Exports) Owe(
	handle uint32, channel int, by *Worker,
) (number, status uint32, owes bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, x := by, e.handles[handle]
	if saved := e.saved(channel); saved != nil {
		w = saved
	}
	switch {
	case w == nil, w == by && (!e.held && !w.waits || w.ended):
		return 0, wire.StatusOk, false
	case x == nil || x.lost() && !x.awaited:
		return 0, wire.StatusNoObject, true
	case len(w.owed) >= maxOwed:
		return 0, wire.StatusLimit, true
	}
	e.imports++
	e.owe(w, owed{number: e.imports, object: x})
	e.note()
	return e.imports, wire.StatusOk, true
}

// Importing begins an import, which done ends: when a worker has the object, or is owed it.
func (e *Exports) Importing() (done func()) {
	e.importing.RLock()
	return e.importing.RUnlock
}

// Hold says that workers, which stand still, are about to be saved, and waits for imports under
// way: what has been taken already is to be there before a worker writes its record. LetGo says
// that all go on, or are about to: they must have what they are owed before.
func (e *Exports) Hold() {
	e.importing.Lock()
	defer e.importing.Unlock()
	e.hold(true)
}

// LetGo ends a Hold.
func (e *Exports) LetGo() { e.hold(false) }

func (e *Exports) hold(yes bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = yes
}

// HandOwed has hand hand a worker what its program has imported meanwhile, before it goes on. Each
// file is hand's own, -1 for none. All is owed until all is handed over: if this process dies
// meanwhile, the next one does the same Again.
func (e *Exports) HandOwed(w *Worker, hand func(handover.Object, int)) {
	e.importing.Lock()
	defer e.importing.Unlock()
	for _, x := range e.owedTo(w) {
		hand(x.Object, x.file)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owesNothing(w)
	e.note()
}

// owedTo describes what a worker is owed.
func (e *Exports) owedTo(w *Worker) (list []exported) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range w.owed {
		if x.object.lost() {
			continue
		}
		if o, file, status := e.take(x.object, w, x.number); status == wire.StatusOk {
			o.Again = x.again
			list = append(list, exported{Object: o, file: file})
		}
	}
	return list
}

// owe notes what a worker is to be handed, and owesNothing that it has all. Until then what its
// program imports comes later, in order.
func (e *Exports) owe(w *Worker, x owed) {
	w.owed, w.waits = append(w.owed, x), true
	e.owing[w] = true
}

func (e *Exports) owesNothing(w *Worker) {
	w.owed, w.waits = nil, false
	delete(e.owing, w)
}
