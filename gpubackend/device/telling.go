// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// memoryMessage tells a process of the guest's memory. Its files are those of that.
func memoryMessage(mapped *guestmem.Memory) (*handover.Message, []int) {
	regions, files := handover.Describe(mapped.Regions())
	return &handover.Message{
		Kind: handover.KindMemory, Memory: regions, Files: handover.Files{Memory: len(files)},
	}, files
}

// tellMover has the mover use the memory that there is now, and end the copies of workers that are
// gone.
func (d *Device) tellMover() {
	d.movers.Tell(func() (*handover.Message, []int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return memoryMessage(d.mapped)
	})
}
