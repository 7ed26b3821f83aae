// SPDX-License-Identifier: Apache-2.0

package exports

import "github.com/paracuda/paracuda/gpubackend/handover"

// Memory that a program has imported, and exported again, is another object with the same token. If
// its program ends, or releases it, the handles pass to a program that has exported the same memory
// before and still has it: that one can write it to a record. It need not have handles any more. A
// later device process knows this only of what it is offered itself.

// maxHolds bounds how many memories are known of a worker. Handles of others don't pass to it.
const maxHolds = 1 << 10

// noteHolder notes that a worker has the memory that it offers.
func (e *Exports) noteHolder(x *exported) {
	key := offer{x.worker, x.Number}
	if _, known := e.holders[key]; known || x.Kind != handover.ObjectMemory || x.Token == 0 ||
		x.worker.ended || x.worker.holds >= maxHolds {
		return
	}
	x.worker.holds++
	e.holders[key] = x.Object
}

// dropHolder notes that a worker hasn't got what it offered any more.
func (e *Exports) dropHolder(key offer) {
	if _, known := e.holders[key]; known {
		delete(e.holders, key)
		key.worker.holds--
	}
}

// dropHolders does so for all that a worker offered.
func (e *Exports) dropHolders(w *Worker) {
	for key := range e.holders {
		if key.worker == w {
			e.dropHolder(key)
		}
	}
}

// moveHolders has another worker hold what one held.
func (e *Exports) moveHolders(from, to *Worker) {
	for key, o := range e.holders {
		if key.worker == from {
			e.dropHolder(key)
			e.holders[offer{to, key.number}] = o
			to.holds++
		}
	}
}

// holder is a worker, which runs, that has the memory of an object, and its number there.
func (e *Exports) holder(x *exported) (key offer, found bool) {
	for key, o := range e.holders {
		there := e.offers[key]
		if o.Token == x.Token && o.Bytes == x.Bytes && o.GPU == x.GPU && key.worker != x.worker &&
			e.before[key.worker.channel] != key.worker && !e.isBeginning(key.worker) &&
			(there == nil || !there.gone) {
			return key, true
		}
	}
	return key, false
}

// passOn gives the handles of memory, which its worker hasn't got any more, to a holder. file is
// one that isn't needed now, or -1, and unused is its object, or nil.
func (e *Exports) passOn(x *exported) (file int, unused *exported, passed bool) {
	if x.handles == 0 || x.file < 0 || x.Kind != handover.ObjectMemory || x.Token == 0 {
		return -1, nil, false
	}
	key, found := e.holder(x)
	if !found {
		return -1, nil, false
	}
	if x.worker != nil {
		delete(e.offers, offer{x.worker, x.Number})
		x.worker.handles -= x.handles
	}
	key.worker.handles += x.handles
	y := e.offers[key]
	if y == nil {
		x.worker, x.Number = key.worker, key.number
		e.offers[key] = x
		return -1, nil, true
	}
	if y.handles == 0 {
		key.worker.offers--
	} else {
		e.bytes -= x.Bytes
	}
	e.become(x, y)
	return x.giveUp(), x, true
}

// become makes all that names an object name another one.
func (e *Exports) become(x, y *exported) {
	for handle, named := range e.handles {
		if named == x {
			e.handles[handle] = y
		}
	}
	y.handles, x.handles = y.handles+x.handles, 0
	for w := range e.owing {
		for i := range w.owed {
			if w.owed[i].object == x {
				w.owed[i].object = y
			}
		}
	}
}
