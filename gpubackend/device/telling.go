// SPDX-License-Identifier: Apache-2.0

package device

import "github.com/paracuda/paracuda/gpubackend/handover"

// giveMemory adds the guest's memory to a message, if there is some. Device.mu is held.
func (d *Device) giveMemory(m *handover.Message, fds []int) (*handover.Message, []int) {
	if d.mapped == nil {
		return m, fds
	}
	regions, files := handover.Describe(d.mapped.Regions())
	m.Memory, m.Files.Memory = regions, len(files)
	return m, append(fds, files...)
}

// tellMover has the mover use the memory that there is now, and end the copies of workers that are
// gone.
func (d *Device) tellMover() {
	d.movers.Tell(func() (*handover.Message, []int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.giveMemory(&handover.Message{Kind: handover.KindMemory}, nil)
	})
}
