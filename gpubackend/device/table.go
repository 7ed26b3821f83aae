// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// channels are those of a VM: what can be asked of all of them. Device.mu is held for all of it.
type channels []*channel

// serving are the workers that have a channel.
func (t channels) serving() (list []*workers.Worker) {
	for _, c := range t {
		if c.worker != nil {
			list = append(list, c.worker)
		}
	}
	return list
}

// taken is how many channels are a guest process's. Device.mu is held.
func (d *Device) taken() (n uint32) {
	for _, c := range d.channels {
		if c.worker != nil || c.cold != nil || d.saving.Has(c.index) {
			n++
		}
	}
	return n
}

// used says whether a program uses the GPU, or is about to.
func (t channels) used() bool {
	for _, c := range t {
		if c.worker != nil || c.cold != nil {
			return true
		}
	}
	return false
}

// counted adds what the workers counted to that of earlier ones.
func (t channels) counted(sum handover.Counters) handover.Counters {
	for _, w := range t.serving() {
		sum.Add(w.Counters())
	}
	return sum
}
