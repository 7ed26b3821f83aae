// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"math"

	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// export gives what a channel's worker offers a handle. The offer may be on its way still: then the
// worker is asked for a sign, which comes behind it.
func (d *Device) export(channel int, number uint32) (handle, status uint32) {
	w, limit := d.sharer(channel)
	if w == nil {
		return 0, wire.StatusBadRequest
	}
	handle, status = d.exports.Claim(&w.exports, number, limit)
	if status != wire.StatusNoObject {
		return handle, status
	}
	if err := w.conn.Request(&handover.Message{Kind: handover.KindSync}, nil, handover.KindSynced,
		d.config.Timeouts.Start); err != nil {
		return 0, d.shareFailed(w, channel, err)
	}
	return d.exports.Claim(&w.exports, number, limit)
}

// sharer is a channel's worker, and how much memory all handles may hold: as much as the VM may
// have.
func (d *Device) sharer(channel int) (*workerProcess, uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := d.settings.memoryBound(d.config.GPU)
	if limit == 0 {
		limit = math.MaxUint64
	}
	return d.channels[channel].worker, limit
}

// importObject hands the object of a handle to a channel's worker and returns the number by which
// that knows it.
func (d *Device) importObject(channel int, handle uint32) (number, status uint32) {
	w, _ := d.sharer(channel)
	if w == nil {
		return 0, wire.StatusBadRequest
	}
	o, file, status := d.exports.Take(handle, &w.exports)
	if status != wire.StatusOk {
		return 0, status
	}
	m := &handover.Message{Kind: handover.KindImport, Object: &o}
	var fds []int
	if file >= 0 {
		m.Files.Object, fds = true, []int{file}
		defer handover.CloseFiles(fds)
	}
	answer, err := w.conn.Ask(m, fds)
	if err != nil {
		return 0, wire.StatusNoWorker
	}
	if err := answer(handover.KindTaken, d.config.Timeouts.Start); err != nil {
		return 0, d.shareFailed(w, channel, err)
	}
	return o.Import, wire.StatusOk
}

// shareFailed is the status for a request that a worker did not obey. One that doesn't answer is
// killed: what it would say later nobody asked for.
func (d *Device) shareFailed(w *workerProcess, channel int, err error) (status uint32) {
	if errors.Is(err, child.ErrRefused) { // not logged: a guest can have that as often as it likes
		return wire.StatusLimit
	}
	d.log.WithField("channel", channel).WithError(err).Warn("a worker does not export or import")
	w.kill()
	return wire.StatusNoWorker
}
