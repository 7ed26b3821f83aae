// SPDX-License-Identifier: Apache-2.0

// Package dirty tells a front end that migrates the guest which of its pages a worker writes to.
//
// What goes through guestmem and the queue is marked write by write. The arena, whose words are
// written with each answer, and pages that the GPU has mapped, are not. They count as written as
// long as they are held: they are marked when a log comes, every markEvery while there is one, and
// when they are let go of, since nothing writes to them any more.
//
// # Who owns what
//
// Pages has locks of its own: the worker's loop holds pages and lets go of them, and the reader of
// the device process's messages gives it a log.
package dirty

import (
	"sync"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// Pages are the pages to which a worker writes. The zero value holds none, and has no log.
type Pages struct {
	log  dirtylog.Switch
	held dirtylog.Ranges

	mu    sync.Mutex  // guards what follows
	timer *time.Timer // runs keepMarking; nil: there is no log
	ended bool
}

// markEvery is how soon pages that the front end has cleared are marked again. When a VM is stopped
// to be migrated, few pages should be left to send; correctness doesn't depend on it.
const markEvery = 100 * time.Millisecond

// Switch is where guestmem marks single writes.
func (d *Pages) Switch() *dirtylog.Switch { return &d.log }

// Hold makes pages count as written until LetGo of their name.
func (d *Pages) Hold(runs []wire.Run) uint64 {
	ranges := make([]dirtylog.Range, len(runs))
	for i, r := range runs {
		ranges[i] = dirtylog.Range{Addr: r.Address, Bytes: r.Bytes}
	}
	return d.held.Add(ranges)
}

// LetGo is called when nothing writes to pages any more. 0 names none.
func (d *Pages) LetGo(name uint64) {
	if name != 0 {
		d.held.Drop(name, &d.log)
	}
}

// MarkHeld marks all pages that are held.
func (d *Pages) MarkHeld() {
	if l := d.log.Log(); l != nil {
		d.held.MarkAll(l)
	}
}

// Obey obeys a message that gives a log, or takes it away, and returns the answer. The loop need
// not stand still: what is written from now on is marked.
func (d *Pages) Obey(m *handover.Message, fd int) *handover.Message {
	answer := &handover.Message{Kind: handover.KindLogged}
	if err := d.Take(m, fd); err != nil {
		answer.Error = err.Error()
	}
	return answer
}

// Take is Obey for a message that has an answer of another kind, or none.
func (d *Pages) Take(m *handover.Message, fd int) error {
	err := m.TakeLog(fd, &d.log)
	d.keepMarking()
	return err
}

// keepMarking marks all pages that are held, again and again while there is a log.
func (d *Pages) keepMarking() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.ended || d.log.Log() == nil {
		return
	}
	d.MarkHeld()
	d.timer = time.AfterFunc(markEvery, d.keepMarking)
}

// Close marks no more.
func (d *Pages) Close() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.keepMarking()
}
