// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/device/accounts"
	"github.com/paracuda/paracuda/gpubackend/handover"
	sizes "github.com/paracuda/paracuda/gpubackend/size"
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

// memoryBound is what the VM may have of each GPU; 0 is all. The software GPU is the VM's own, and
// has so much.
func (s *Settings) memoryBound(gpu string) uint64 {
	if gpu == "soft" && (s.Memory == 0 || s.Memory > s.Policy.SoftMemory) {
		return s.Policy.SoftMemory
	}
	return s.Memory
}

// Check refuses settings that contradict one another on a GPU: a guarantee of more than the VM may
// have.
func (s *Settings) Check(gpu string) error {
	bound := s.memoryBound(gpu)
	if bound == 0 || s.Guarantee <= bound {
		return nil
	}
	return fmt.Errorf("memory-guarantee=%s is more than the VM may have: set memory=%[1]s or more",
		sizes.Format(s.Guarantee))
}
