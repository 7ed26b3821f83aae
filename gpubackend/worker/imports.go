// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// imports are objects that the device process has handed over, since the guest's driver asked for it, and that the guest's
// library hasn't named yet. The goroutine that receives messages puts them here, so that nobody waits for a loop that is busy.
type imports struct {
	mu      sync.Mutex
	waiting map[uint32]imported
	offered uint32 // the last number of something that is offered to others: the loop's alone
}

// offerNumber is a number for something that this process offers; 0 when there are no more.
func (w *Worker) offerNumber() uint32 {
	if w.imports.offered < math.MaxUint32 {
		w.imports.offered++
		return w.imports.offered
	}
	return 0
}

// imported is an object, and its file or -1.
type imported struct {
	handover.Object
	file int
}

// maxImports bounds what a guest can have handed over and leave there.
const maxImports = 1 << 6

func (x *imported) close() {
	if x.file >= 0 {
		unix.Close(x.file)
	}
}

// accept takes an object over and returns the answer to the message.
func (s *imports) accept(m *handover.Message, fds []int) *handover.Message {
	x := imported{file: m.Name(fds).Object}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &handover.Message{Kind: handover.KindTaken}
	switch {
	case m.Object == nil:
		answer.Error = "no object"
	case len(s.waiting) >= maxImports:
		answer.Error = "too many objects that the process doesn't ask for"
	default:
		if s.waiting == nil {
			s.waiting = map[uint32]imported{}
		}
		x.Object = *m.Object
		s.waiting[m.Object.Import] = x
		return answer
	}
	x.close()
	return answer
}

// take returns the object that has a number, once. The caller closes it.
func (s *imports) take(number uint64, kind handover.ObjectKind) (imported, gpubackend.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.waiting[uint32(number)]
	if !ok || number>>32 != 0 {
		return imported{file: -1}, gpubackend.InvalidValue
	}
	delete(s.waiting, uint32(number))
	if x.Kind != kind {
		x.close()
		return imported{file: -1}, gpubackend.InvalidValue
	}
	return x, gpubackend.Success
}

// withdrawObject tells the device process that an object is gone: until then that holds it, for a claim that may never come.
func (w *Worker) withdrawObject(kind handover.ObjectKind, number uint32) {
	if number == 0 {
		return
	}
	m := &handover.Message{Kind: handover.KindWithdraw, Object: &handover.Object{Kind: kind, Number: number}}
	if err := w.control.Send(m, nil); err != nil {
		w.log.WithError(err).Warn("withdraw an object from other processes")
	}
}

// offerObject tells the device process of an object that other processes may have. The file stays the caller's.
func (w *Worker) offerObject(o handover.Object, file int) gpubackend.Result {
	m := &handover.Message{Kind: handover.KindOffer, Object: &o}
	var fds []int
	if file >= 0 {
		m.Files.Object, fds = true, []int{file}
	}
	if err := w.control.Send(m, fds); err != nil {
		w.log.WithError(err).Warn("offer an object to other processes")
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}
