// SPDX-License-Identifier: Apache-2.0

package device

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// A VM is suspended in steps, each of which all workers take before the next (package suspend).
// Workers that end meanwhile need nothing more; those that start begin as ones whose work has
// ended.

// newSuspension makes what suspends the VM, from what that needs of it.
func (d *Device) newSuspension() *suspend.Suspension {
	return suspend.New(suspend.Config{
		Hold: d.hold, GoOn: d.goOn, Guard: d.guard, Log: d.log,
		Terms: func() (time.Duration, uint64) {
			s := &d.settings.Now().Settings
			return s.StopGrace, s.SuspendMemory
		},
		Room: func() (uint64, error) { return d.config.HostMemory() },
		Note: func(suspended bool) {
			d.config.Remains.Note(func(f *remains.Facts) { f.Suspended = suspended })
		},
		Stays: d.accounts.Sum,
	})
}

// hold ends the warm workers, and answers those that serve a program.
func (d *Device) hold() (list []suspend.Worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.warm.Keep(0)
	for _, w := range d.channels.serving() {
		list = append(list, w)
	}
	return list
}

// goOn has all workers go on.
func (d *Device) goOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.channels.serving() {
		w.Tell(&handover.Message{Kind: handover.KindGoOn}, nil)
	}
	d.refill()
}
