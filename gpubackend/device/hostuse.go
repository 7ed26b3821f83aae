// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend/device/accounts"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
)

// What a worker may have of the host's memory besides what its guest process makes it take: on a
// real GPU what NVIDIA's driver and its libraries take.
const (
	besideCUDA = 2 << 30
	besideSoft = 512 << 20
)

// mappedTimes is how often a worker may have the same memory mapped: pages that a program has at
// several addresses, and the software GPU's memory, which it may map again and again.
const mappedTimes = 4

// bound makes the VM's bounds hold.
func (d *Device) bound() {
	d.accounts.SetBounds(d.settings.MemoryBound(), d.settings.HostBound())
	h := accounts.HostBounds{Process: d.settings.HostBytes(), VM: d.settings.HostEnd(),
		Beside: besideSoft}
	if d.config.GPU == "cuda" {
		h.Beside, h.Files = besideCUDA, math.MaxUint64 // no files are made for workers
	} else {
		policy := &d.settings.Now().Settings.Policy
		h.Files = policy.SoftMemory * uint64(gpusOf(policy))
	}
	d.accounts.SetHost(h)
}

// holding is what a worker has of the host's memory by the owner's will, or because it is the VM's.
func (d *Device) holding(p accounts.Process) (h accounts.Holding) {
	h.Moved, h.Known = d.suspension.Holds(p.(*workers.Worker))
	memory := d.ram.Now()
	if memory == nil { // it is being changed
		h.Mapped = math.MaxUint64
		return h
	}
	for _, r := range memory.Regions() {
		h.Mapped += mappedTimes * r.Size
	}
	if d.config.GPU != "cuda" {
		policy := &d.settings.Now().Settings.Policy
		h.Mapped += mappedTimes * policy.SoftMemory * uint64(gpusOf(policy))
	}
	return h
}
