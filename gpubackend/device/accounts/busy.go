// SPDX-License-Identifier: Apache-2.0

package accounts

import "time"

// busyWindow is the shortest time over which the GPU's time is counted before the guest is told.
const busyWindow = time.Second

// busy is how busy the VM keeps its GPUs, for NVML in the guest: by what the arbiter says, which
// knows when the VM had its GPUs, or else by what its workers measured. Accounts.mu is held for all
// of it.
type busy struct {
	at       time.Time // counted from here on
	gpu      uint64    // nanoseconds, until then
	share    float64   // as the arbiter said
	sharedAt time.Time // when it did
}

// Shared notes for which part of the last moment the VM had its GPUs, as the arbiter says.
func (a *Accounts) Shared(part float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy.share, a.busy.sharedAt = part, time.Now()
}

// fraction is for which part of the window the GPUs were busy, if the window is over.
func (b *busy) fraction(now time.Time, gpu uint64) (part float64, ok bool) {
	gone := now.Sub(b.at)
	if gone < busyWindow {
		return 0, false
	}
	part = float64(gpu-min(gpu, b.gpu)) / float64(gone)
	first := b.at.IsZero()
	b.at, b.gpu = now, gpu
	switch {
	case now.Sub(b.sharedAt) < 2*busyWindow:
		part = b.share
	case first:
		part = 0
	}
	return min(1, max(0, part)), true
}

// tellBusy tells the workers, which tell the guest. Without a gate they don't count time.
func (a *Accounts) tellBusy(now time.Time) {
	if a.config.Gate == nil {
		return
	}
	gpu := a.config.GPUTime()
	a.mu.Lock()
	defer a.mu.Unlock()
	if part, ok := a.busy.fraction(now, gpu); ok {
		a.config.Page.SetBusy(int(100*part + 0.5))
	}
}

// restBusy is called when there are no workers any more. Accounts.mu is held.
func (a *Accounts) restBusy() {
	a.busy.at = time.Time{}
	if a.config.Gate != nil {
		a.config.Page.SetBusy(0)
	}
}
