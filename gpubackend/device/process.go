// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"

	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/movers"
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Process is a child process.
type Process = child.Process

// Spawner starts the children of a device: this program in another role, with one end of a control
// connection.
type Spawner interface {
	Worker(control *os.File) (Process, error)
	Mover(control *os.File) (Process, error)
}

// serves notes for the next device process that a worker serves its channel now, or is about to,
// and where its queue began.
func (d *Device) serves(w *workers.Worker, base uint16) {
	entry, _ := d.accounts.Entry(w)
	d.config.Notes.ServesWorker(w, entry, base)
}

// workerEnded takes back what a worker had that has ended.
func (d *Device) workerEnded(w *workers.Worker, err error) {
	d.exports.Ended(&w.Offers)
	d.shares.Ended(w)
	d.reach.Forget(w)
	if w.Channel() >= 0 {
		if !w.Conn().Quiet() {
			d.ram.MarkAll()
		}
		// The worker's copies end before its pages go back to the guest. If this process has no
		// guest memory yet, the mover has that of the previous one: SetMemory tells it later.
		if d.ram.Now() != nil {
			d.movers.Tell(d.ram.Message)
		}
		w.AwaitBegun() // who started it must first know that it began
	}
	if !d.channels.Ended(w, err) {
		d.config.Notes.Ended(w.Process())
	}
	if w.Channel() < 0 {
		d.ahead.Lost(w, err)
	}
	d.ahead.Rested()
}

// said takes what a worker says without being asked.
func (d *Device) said(w *workers.Worker, m *handover.Message, fds []int) {
	switch m.Kind {
	case handover.KindWake:
		handover.CloseFiles(fds)
		d.place.Work()
	case handover.KindMover:
		handover.CloseFiles(fds)
		d.reach.Wanted(w)
	case handover.KindRelease:
		handover.CloseFiles(fds)
		d.reach.Released(w)
	case handover.KindConfined:
		d.mappings.Confined(w, m, fds)
	case handover.KindFault:
		handover.CloseFiles(fds)
		d.faults.Told(w.Program().PID, m.Fault)
	case handover.KindRoom:
		handover.CloseFiles(fds)
		d.place.Lacks(w, m.Bytes)
	case handover.KindShare, handover.KindUnshare, handover.KindSeek, handover.KindGiven:
		if d.mayHandOn(w, fds) {
			d.shares.Said(w, m, fds)
		}
	default:
		if d.mayHandOn(w, fds) {
			d.exports.Receive(&w.Offers, m, fds)
		}
	}
}

// mayHandOn says whether other workers may have what a worker sends. If not, the files are closed.
func (d *Device) mayHandOn(w *workers.Worker, fds []int) bool {
	if !d.ram.HasAny(fds) {
		return true
	}
	w.Log().Warn("a worker offers the guest's memory, which it can't have: it is killed")
	handover.CloseFiles(fds)
	w.Kill()
	return false
}

// needMover is the VM's mover, which is started if there is none. It gets the guest's memory, if
// that is known yet.
func (d *Device) needMover(kills uint64) (m *movers.Mover, err error) {
	d.ram.Use(func(mem *guestmem.Memory) {
		m, err = d.movers.Need(func() (*handover.Message, []int) {
			policy := d.settings.Now().Policy
			start := &handover.Message{
				Kind: handover.KindStart, GPU: d.config.GPU, Policy: &policy,
			}
			fds := d.accounts.PassMover(start, start.GiveLog(d.ram.Log(), nil))
			return start, ram.Describe(mem, start, fds)
		}, kills)
	})
	return m, err
}

// moverEnded gives back what waited for the end of a mover.
func (d *Device) moverEnded() {
	if d.movers.Current() == nil { // its memory couldn't be told from that of another mover
		d.accounts.MoverEnded()
	}
	d.channels.GiveOwed()
}
