// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// A program that goes to a file, or elsewhere, keeps the handles of what it offers: the guest has
// descriptors. Its worker ends, and so does the memory, whose files are closed. The worker that
// goes on offers it again under the numbers that it had. Until then it is awaited.
//
// Where the VM is taken elsewhere, the driver's handles go along (State), without files.

// Leave says that a worker's program is saved, and that the worker is about to end.
func (e *Exports) Leave(w *Worker) {
	e.mu.Lock()
	files := e.leave(w)
	e.mu.Unlock()
	handover.CloseFiles(files)
}

// leave keeps what a worker offers for the one that goes on, and returns the files. What the worker
// has no more is nobody's: the next one may give its number to something else.
func (e *Exports) leave(w *Worker) (files []int) {
	next := &Worker{channel: w.channel}
	e.before[w.channel] = next
	e.move(w, next)
	w.ended = true
	delete(e.begins, w.channel)
	var slots []*exported
	for key, x := range e.offers {
		switch {
		case key.worker != next:
			continue
		case x.gone:
			delete(e.offers, key)
			next.handles -= x.handles
			x.worker = nil
			continue
		case x.Kind != handover.ObjectMemory:
			continue
		}
		if x.file >= 0 {
			files = append(files, x.file)
			slots = append(slots, &exported{slot: x.slot})
		}
		x.file, x.slot, x.awaited = -1, -1, true
	}
	e.note(slots...)
	return files
}

// leftAgain is Leave for a worker that begins; false: it doesn't.
func (e *Exports) leftAgain(w *Worker) bool {
	e.mu.Lock()
	begins := e.isBeginning(w)
	var files []int
	if begins {
		files = e.leave(w)
	}
	e.mu.Unlock()
	handover.CloseFiles(files)
	return begins
}

// Begins says that a worker begins with a saved program, in its channel. What it offers is taken
// only if it is awaited. It may end, until it GoesOn.
func (e *Exports) Begins(w *Worker, channel int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rejoin(w, channel)
	w.waits = true
	e.begins[channel] = w
}

func (e *Exports) isBeginning(w *Worker) bool { return e.begins[w.channel] == w }

// GoesOn says that the worker goes on, after it has offered all again.
func (e *Exports) GoesOn(w *Worker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isBeginning(w) {
		delete(e.begins, w.channel)
	}
}

// Forget says that a channel's program, which was saved, has ended. If a worker begins with it,
// that one leaves nothing behind.
func (e *Exports) Forget(channel int) {
	e.mu.Lock()
	delete(e.begins, channel)
	w := e.before[channel]
	delete(e.before, channel)
	e.mu.Unlock()
	if w != nil {
		e.Ended(w)
	}
}

// Saved stands for the worker of a saved program, in Claim: or it is the one that begins with it.
// nil: the channel has no such program.
func (e *Exports) Saved(channel int) *Worker {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.saved(channel)
}

func (e *Exports) saved(channel int) *Worker {
	if w := e.before[channel]; w != nil {
		return w
	}
	return e.begins[channel]
}

// again takes an offer that was awaited, and returns the file that isn't needed. A pool may be on
// another GPU now.
func (e *Exports) again(x, offered *exported) (unused int) {
	same := x.Kind == offered.Kind && x.Bytes == offered.Bytes && x.Token == offered.Token
	if same && x.Kind == handover.ObjectPool {
		x.GPU = offered.GPU
		e.note()
	}
	if !same || !x.awaited {
		return offered.file
	}
	x.file, x.GPU, x.awaited = offered.file, offered.GPU, false
	e.keepFile(x)
	e.note()
	return -1
}

// Lone is how many handles there are of memory that no program has any more, and that only its file
// keeps: nobody could make it again.
func (e *Exports) Lone() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.handles {
		if x.file >= 0 && (x.worker == nil || x.gone) {
			n++
		}
	}
	return n
}

// State is what goes along with a VM: handles, and what programs offer. Its form is that of a kept
// state, in which no file has a slot.
func (e *Exports) State() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.handles)+len(e.offers)+len(e.owing) == 0 {
		return nil
	}
	return e.encode(false)
}

// Check says why a State can't be one.
func Check(state []byte) error {
	if len(state) == 0 {
		return nil
	}
	e := New(0)
	return e.decode(state, nil)
}

// Load takes a State, in place of what there is. The workers that go on with its programs Begin.
// Until then some may be saved.
func (e *Exports) Load(state []byte, saved func(channel int) bool) error {
	e.Clear()
	e.mu.Lock()
	defer e.mu.Unlock()
	var err error
	if len(state) > 0 {
		err = e.decode(state, nil)
	}
	if err != nil {
		e.forgetAll()
	} else {
		e.standFor(saved)
	}
	e.note()
	return err
}

// standFor has something stand for each worker of a saved program.
func (e *Exports) standFor(saved func(channel int) bool) {
	for channel := range wire.MaxChannels {
		if saved(channel) {
			e.worker(channel)
		}
	}
}

// forgetAll drops what a state has that is wrong.
func (e *Exports) forgetAll() {
	clear(e.offers)
	clear(e.handles)
	clear(e.before)
	clear(e.owing)
	e.bytes = 0
}
