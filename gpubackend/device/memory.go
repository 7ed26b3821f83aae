// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/paracuda/paracuda/gpubackend/device/accounts"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Tolerances are how much more than the bound the driver may have for a VM: what it takes by
// itself. A kernel's local memory is most of it on a real GPU.
const (
	toleranceCUDA = 512 << 20
	toleranceSoft = 64 << 20
)

// newAccounts makes what knows what the VM's processes take of the GPU.
func (d *Device) newAccounts() *accounts.Accounts {
	c := &d.config
	tolerance := uint64(toleranceSoft)
	if c.GPU == "cuda" {
		tolerance = toleranceCUDA
	}
	return accounts.New(accounts.Config{
		Page: c.Ledger, Gate: c.Gate, Tolerance: tolerance, Ask: c.Usage, Pause: c.AuditPause,
		GPUTime: func() uint64 { return d.Counters()[handover.GPUTime] },
		Guard:   d.guard, Log: c.Log,
	})
}

// Shared notes for what part of the last moment the arbiter says that the VM had its GPUs.
func (d *Device) Shared(part float64) { d.accounts.Shared(part) }
