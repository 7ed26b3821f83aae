// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
	"github.com/paracuda/paracuda/gpubackend/worker/queue"
	"github.com/paracuda/paracuda/virtqueue/asked"
)

// send sends the device process a message without files.
func (w *Worker) send(m *handover.Message) error { return w.control.Send(m, nil) }

// atOnce obeys a message that doesn't need the loop; false: it does.
func (w *Worker) atOnce(m *handover.Message, fds []int) (obeyed bool, err error) {
	switch m.Kind {
	case handover.KindTakeOver:
		// What the dead device process was about to decide on, or to find, is asked of the next
		// one. The loop may wait for just that.
		asked.Again()
		return false, w.offers.Again()
	case handover.KindImport:
		return true, w.send(w.exports.Accept(m, fds))
	case handover.KindLog:
		return true, w.send(w.dirty.Obey(m, m.Name(fds).Log))
	case handover.KindSync: // the device process lacks an offer
		answer := &handover.Message{Kind: handover.KindSynced}
		if err := w.exports.OfferAgain(); err != nil {
			answer.Error = err.Error()
		}
		return true, w.send(answer)
	}
	return w.offers.Obey(m, fds)
}

// handle obeys a message of the device process, while nothing else uses queue and memory.
func (w *Worker) handle(r inbox.Received) error {
	w.hostFuncs.Hold()
	defer w.hostFuncs.LetGo()
	return w.obey(r)
}

// obey does so when the host functions are held already.
func (w *Worker) obey(r inbox.Received) error {
	if r.Err != nil {
		return fmt.Errorf("device process: %w", r.Err)
	}
	n := r.Message.Name(r.Files)
	switch r.Message.Kind {
	case handover.KindStop:
		return w.stop()
	case handover.KindPause:
		return w.standstill.Pause(r.Message.Grace)
	case handover.KindResume:
		if w.standstill.Resume() {
			return w.resume(r)
		}
	case handover.KindDrain:
		return w.standstill.Drain(r.Message)
	case handover.KindMoveOut:
		return w.standstill.MoveOut(r.Message.Bytes, r.Message.Keep)
	case handover.KindMoveIn:
		return w.standstill.MoveIn()
	case handover.KindForget:
		w.suspension.Forget()
		return nil
	case handover.KindSave:
		return w.standstill.Save(n.Lanes, restOf(r.Message))
	case handover.KindJoin:
		return w.join()
	case handover.KindMovable:
		return w.tellMovable(r.Message.Turn)
	case handover.KindPrecopy:
		return w.precopy(r.Message, n.Object)
	case handover.KindGoOn:
		return w.standstill.GoOn()
	case handover.KindTakeOver:
		return w.takeOver(r.Message)
	case handover.KindRoom:
		w.shortage.Answered(r.Message.Error != "")
		return nil
	case handover.KindMover:
		w.reach.Take(r.Message, link.Of(&n))
		return nil
	case handover.KindRelease:
		return w.reach.Release(r.Message.Error != "")
	case handover.KindCall:
		w.queue.SetCall(n.Call)
		return nil
	case handover.KindPolicy:
		if r.Message.Policy != nil {
			w.follow(*r.Message.Policy)
		}
		return nil
	case handover.KindMemory:
		answer := &handover.Message{Kind: handover.KindDone}
		if err := moveQueue(w.queue, r.Message, n.Memory); err != nil {
			answer.Error = err.Error()
		}
		return w.send(answer)
	}
	return fmt.Errorf("device process: unexpected message %q", r.Message.Kind)
}

// stop ends the driver, and with it what runs. The error has the loop end.
func (w *Worker) stop() error {
	w.precopied.End()
	w.driver.Close() // this abandons running work
	w.driver = nil
	w.dirty.MarkHeld()
	_ = w.send(&handover.Message{Kind: handover.KindStopped})
	return errStopped
}

// follow has a changed policy hold from now on.
func (w *Worker) follow(p handover.Policy) {
	w.policy = p
	limitHost(w.host, p.HostBytes(w.gpu))
	if d, ok := w.driver.(interface{ Lose(gpu int) }); ok {
		d.Lose(p.SoftLost - 1)
	}
}

// resume takes the queue back.
func (w *Worker) resume(r inbox.Received) error {
	n := r.Message.Name(r.Files)
	if r.Message.Queue == nil || n.Kick < 0 {
		return errors.New("device process: resume without a queue")
	}
	if len(r.Message.Memory) > 0 {
		if err := moveQueue(w.queue, r.Message, n.Memory); err != nil {
			return err
		}
	}
	restored, err := w.queue.Resume(r.Message.Queue)
	if err == nil && restored {
		err = w.remap()
	}
	if err != nil {
		return err
	}
	w.files.SetKick(n.Kick)
	w.queue.SetCall(n.Call)
	return nil
}

// remap has a restored program reach the guest's memory, in place of what stood in for it.
func (w *Worker) remap() error {
	current := w.contexts.Current()
	w.contexts.Set(0, true) // the driver is to keep it as what was registered early
	err := w.hostMemory.Remap()
	w.contexts.Set(current, true) // it learns of the pages now
	if err == nil && w.hostMemory.Pinned() > 0 {
		err = w.graphs.Renew()
	}
	if err != nil {
		return fmt.Errorf("go on with what was saved: %w", err)
	}
	return nil
}

// moveQueue moves the queue to a new memory table. The arena and pinned pages have mappings of
// their own, and stay.
func moveQueue(q *queue.Queue, m *handover.Message, files []int) error {
	mem, err := m.Map(files)
	if err != nil {
		return fmt.Errorf("map guest memory: %w", err)
	}
	return q.Move(mem)
}
