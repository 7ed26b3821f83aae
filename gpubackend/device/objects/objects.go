// SPDX-License-Identifier: Apache-2.0

// Package objects hands what one worker exports to others, by handles: it asks the workers, and
// package exports keeps the files between them, which outlive a worker.
//
// # Who owns what
//
// Objects has no state of its own. Its methods wait for workers: callers must not hold a lock of
// the device. Workers are looked up by a function that may take one.
//
// # Who may lie
//
// Guests, whose numbers and handles these are, and workers. One that doesn't answer is killed.
package objects

import (
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Peer is a worker that exports and imports.
type Peer struct {
	Conn   *child.Conn
	Offers *exports.Worker // what it offers
	Kill   func()
}

// Objects are those of a VM.
type Objects struct {
	Exports *exports.Exports
	// Worker returns a channel's worker, false if it has none, and how much memory all handles may
	// hold.
	Worker func(channel int) (p Peer, limit uint64, ok bool)
	Answer time.Duration // that a worker may take
	Log    *logrus.Entry
}

// Export gives what a channel's worker offers a handle. The offer may still be on its way, or be
// lost with a device process: then the worker is asked for a sign. It offers again what it offered
// last, and the sign comes after that. One that begins with a saved program can't answer while it
// reads that.
func (o *Objects) Export(channel int, number uint32) (handle, status uint32) {
	w, limit, ok := o.Worker(channel)
	if !ok {
		if saved := o.Exports.Saved(channel); saved != nil {
			return o.Exports.Claim(saved, number, limit)
		}
		return 0, wire.StatusBadRequest
	}
	handle, status = o.Exports.Claim(w.Offers, number, limit)
	if status != wire.StatusNoObject || o.Exports.Saved(channel) != nil {
		return handle, status
	}
	if err := w.Conn.Request(&handover.Message{Kind: handover.KindSync}, nil, handover.KindSynced,
		o.Answer); err != nil {
		return 0, o.failed(w, channel, err)
	}
	return o.Exports.Claim(w.Offers, number, limit)
}

// Import hands the object of a handle to a channel's worker and returns the number by which the
// worker knows it. If the program is about to be saved, or is, that is done before a worker goes on
// with it (HandOwed).
func (o *Objects) Import(channel int, handle uint32) (number, status uint32) {
	defer o.Exports.Importing()()
	w, _, ok := o.Worker(channel)
	if number, status, owes := o.Exports.Owe(handle, channel, w.Offers); owes {
		return number, status
	}
	if !ok {
		return 0, wire.StatusBadRequest
	}
	object, file, status := o.Exports.Take(handle, w.Offers)
	if status != wire.StatusOk {
		return 0, status
	}
	return o.hand(w, channel, object, file)
}

// HandOwed hands a channel's worker what its program has imported before the worker went on.
func (o *Objects) HandOwed(channel int) {
	w, _, ok := o.Worker(channel)
	if !ok {
		return
	}
	o.Exports.HandOwed(w.Offers, func(x handover.Object, file int) { o.hand(w, channel, x, file) })
}

// hand hands a worker an object, and closes its file.
func (o *Objects) hand(
	w Peer, channel int, object handover.Object, file int,
) (number, status uint32) {
	m := &handover.Message{Kind: handover.KindImport, Object: &object}
	var fds []int
	if file >= 0 {
		m.Files.Object, fds = true, []int{file}
		defer handover.CloseFiles(fds)
	}
	answer, err := w.Conn.Ask(m, fds)
	if err != nil {
		return 0, wire.StatusNoWorker
	}
	if err := answer(handover.KindTaken, o.Answer); err != nil {
		return 0, o.failed(w, channel, err)
	}
	return object.Import, wire.StatusOk
}

// failed is the status for a request that a worker did not obey.
func (o *Objects) failed(w Peer, channel int, err error) (status uint32) {
	if errors.Is(err, child.ErrRefused) { // not logged: a guest can cause that as often as it likes
		return wire.StatusLimit
	}
	o.Log.WithField("channel", channel).WithError(err).Warn("a worker does not export or import")
	w.Kill()
	return wire.StatusNoWorker
}
