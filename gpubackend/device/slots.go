// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/gate"
)

// slots are the places that the VM's workers have on pages which all of them share. Bits are those
// that are taken. There is one for each channel; a worker has it until its process has ended, so
// that with processes that don't end there can be too few.
type slots uint64

// noSlot is the slot of a worker without one.
const noSlot = -1

// take gives out a slot.
func (s *slots) take() (int, error) {
	slot := bits.TrailingZeros64(^uint64(*s))
	if slot >= gate.Slots {
		return noSlot, fmt.Errorf("the VM has %d workers already, of which some do not end: "+
			"see the kernel's log", gate.Slots)
	}
	*s |= 1 << slot
	return slot, nil
}

func (s *slots) free(slot int) { *s &^= 1 << slot }

// endSlot takes back the slot of a worker whose process has ended: nothing of its work goes on.
func (d *Device) endSlot(w *workerProcess) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.workers, w)
	d.endLedger(w)
	if w.slot == noSlot {
		return
	}
	if d.config.Gate != nil {
		d.config.Gate.Clear(w.slot)
	}
	d.slots.free(w.slot)
	w.slot = noSlot
}
