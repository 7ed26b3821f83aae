// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend/device/objects"
)

// sharer is a channel's worker, and how much memory all handles may hold: as much as the VM may
// have.
func (d *Device) sharer(channel int) (p objects.Peer, limit uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if limit = d.settings.MemoryBound(); limit == 0 {
		limit = math.MaxUint64
	}
	w := d.channels[channel].worker
	if w == nil {
		return objects.Peer{}, 0, false
	}
	return objects.Peer{Conn: w.Conn(), Offers: &w.Offers, Kill: w.Kill}, limit, true
}
