// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
	"github.com/paracuda/paracuda/virtqueue"
)

// atOnce obeys a message that doesn't need the loop, and returns the answer; nil for others.
func (w *Worker) atOnce(m *handover.Message, fds []int) *handover.Message {
	switch m.Kind {
	case handover.KindImport:
		return w.exports.Accept(m, fds)
	case handover.KindLog:
		return w.chains.dirty.turn(m, m.Name(fds).Log)
	case handover.KindSync:
		return &handover.Message{Kind: handover.KindSynced}
	}
	return nil
}

// handle obeys a message of the device process, while nothing else uses queue and memory.
func (w *Worker) handle(r inbox.Received) error {
	w.hostFuncs.Hold()
	defer w.hostFuncs.LetGo()
	return w.obey(r)
}

// obey does so without that: it is the case already.
func (w *Worker) obey(r inbox.Received) error {
	if r.Err != nil {
		return fmt.Errorf("device process: %w", r.Err)
	}
	n := r.Message.Name(r.Files)
	switch r.Message.Kind {
	case handover.KindStop:
		w.quiesce()
		w.chains.dirty.markHeld()
		_ = w.control.Send(&handover.Message{Kind: handover.KindStopped}, nil)
		return errStopped
	case handover.KindPause:
		return w.holding.Pause(r.Message.Grace)
	case handover.KindResume:
		if w.holding.Resume() {
			return w.resume(r)
		}
	case handover.KindDrain:
		return w.holding.Drain(r.Message)
	case handover.KindMoveOut:
		return w.holding.MoveOut(r.Message.Bytes)
	case handover.KindMoveIn:
		return w.holding.MoveIn()
	case handover.KindSave:
		return w.holding.Save(n.Object)
	case handover.KindGoOn:
		return w.holding.GoOn()
	case handover.KindTakeOver:
		return w.takeOver(r.Message)
	case handover.KindRoom:
		w.shortage.Answered(r.Message.Error != "")
		return nil
	case handover.KindMover:
		return w.takeMover(r.Message, n.Conn)
	case handover.KindRelease:
		return w.releaseMover()
	case handover.KindCall:
		w.chains.setCall(n.Call)
		return nil
	case handover.KindPolicy:
		if r.Message.Policy != nil {
			w.policy = *r.Message.Policy
			limitHost(w.host, w.policy.HostBytes(w.gpu))
		}
		return nil
	case handover.KindMemory:
		answer := &handover.Message{Kind: handover.KindDone}
		if err := w.replaceMemory(r.Message, n.Memory); err != nil {
			answer.Error = err.Error()
		}
		return w.control.Send(answer, nil)
	}
	return fmt.Errorf("device process: unexpected message %q", r.Message.Kind)
}

// resume takes the queue back.
func (w *Worker) resume(r inbox.Received) error {
	n := r.Message.Name(r.Files)
	if r.Message.Queue == nil || n.Kick < 0 {
		return errors.New("device process: resume without a queue")
	}
	if len(r.Message.Memory) > 0 {
		if err := w.replaceMemory(r.Message, n.Memory); err != nil {
			return err
		}
	}
	queue, err := virtqueue.New(w.chains.mem,
		queueConfig(r.Message.Queue, r.Message.Queue.Base, r.Message.Queue.InFlight))
	if err != nil {
		return fmt.Errorf("take the queue back: %w", err)
	}
	w.chains.closeQueue()
	w.chains.queue, w.chains.config = queue, *r.Message.Queue
	if w.chains.owed != nil {
		if err := errors.Join(w.chains.begin(), w.hostMemory.Remap()); err != nil {
			return fmt.Errorf("go on with what was saved: %w", err)
		}
	}
	w.files.SetKick(n.Kick)
	w.chains.setCall(n.Call)
	return nil
}

// replaceMemory moves the queue to a new memory table. What is mapped already (the arena, pinned
// pages) has mappings of its own and stays.
func (w *Worker) replaceMemory(m *handover.Message, files []int) error {
	mem, err := m.Map(files)
	if err != nil {
		return fmt.Errorf("map guest memory: %w", err)
	}
	var queue *virtqueue.Queue
	if old := w.chains.queue; old != nil {
		queue, err = virtqueue.New(mem,
			queueConfig(&w.chains.config, old.Base(), old.AppendInFlight(nil)))
		if err != nil {
			mem.Close()
			return fmt.Errorf("move the queue: %w", err)
		}
	}
	mem.Log(&w.chains.dirty.log)
	w.chains.closeQueue()
	w.chains.mem.Close()
	w.chains.queue, w.chains.mem = queue, mem
	return nil
}

// closeQueue lets go of the queue, if there is one.
func (q *chains) closeQueue() {
	if q.queue != nil {
		q.queue.Close()
	}
}

// quiesce ends all use of guest memory: running work is abandoned with the driver.
func (w *Worker) quiesce() {
	w.driver.Close()
	w.driver = nil
}
