// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend/memword"
)

// Worker is one worker's view of a page. One goroutine uses it.
type Worker struct {
	word, waiting, flight *uint32
	turn, overruns        *uint64
	bell, opened          int
}

// Worker returns the view of the worker that has an entry.
func (p *Page) Worker(entry int) *Worker {
	line := p.mem[entriesAt+entry*lineBytes:]
	return &Worker{
		word: memword.Of32(p.mem), waiting: memword.Of32(line),
		flight: memword.Of32(line[flightAt:]),
		turn:   memword.Of64(p.mem[turnAt:]), overruns: memword.Of64(p.mem[overrunAt:]),
		bell: p.bell, opened: p.opened,
	}
}

// State is what the gate's word says.
func (w *Worker) State() State { return stateOf(atomic.LoadUint32(w.word)) }

// Turn is the number of the VM's turn.
func (w *Worker) Turn() uint64 { return atomic.LoadUint64(w.turn) }

// Overruns is how many turns had work that didn't end in time.
func (w *Worker) Overruns() uint64 { return atomic.LoadUint64(w.overruns) }

// Free says whether the gate is open and nobody counts. It is one read.
func (w *Worker) Free() bool {
	return atomic.LoadUint32(w.word)&(openBit|freeBit) == openBit|freeBit
}

// Enter is called before work is given to the GPU, and says whether that is allowed. If the gate
// isn't free, work counts as in flight from then on until Leave.
func (w *Worker) Enter() bool {
	if w.Free() {
		return true
	}
	before := atomic.SwapUint32(w.flight, 1)
	if word := atomic.LoadUint32(w.word); word&openBit != 0 {
		if before == 0 && word&knockBit != 0 {
			ring(w.bell)
		}
		return true
	}
	if before == 0 {
		w.Leave()
	}
	return false
}

// Hold notes work in flight that came through while the gate was free.
func (w *Worker) Hold() { atomic.StoreUint32(w.flight, 1) }

// InFlight says whether work counts as in flight.
func (w *Worker) InFlight() bool { return atomic.LoadUint32(w.flight) != 0 }

// Leave says that no work is in flight.
func (w *Worker) Leave() {
	if atomic.SwapUint32(w.flight, 0) != 0 && atomic.LoadUint32(w.word)&attendBit != 0 {
		ring(w.bell)
	}
}

// Rest says that no work is in flight, and that no commands wait for the GPU.
func (w *Worker) Rest() {
	if atomic.LoadUint32(w.waiting) == 0 && atomic.LoadUint32(w.flight) == 0 {
		return
	}
	atomic.StoreUint32(w.waiting, 0)
	atomic.SwapUint32(w.flight, 0) // before the word is read
	if atomic.LoadUint32(w.word)&attendBit != 0 {
		ring(w.bell)
	}
}

// Wait says whether the worker has commands that wait for the GPU.
func (w *Worker) Wait(waits bool) {
	var v uint32
	if waits {
		v = 1
	}
	if atomic.LoadUint32(w.waiting) == v {
		return
	}
	atomic.StoreUint32(w.waiting, v)
	if s := w.State(); !s.Free && (waits && !s.Open || s.Attend) {
		ring(w.bell)
	}
}

// FD is readable as long as the gate is open, or about to open: a worker can sleep on it.
func (w *Worker) FD() int { return w.opened }
