// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend/holdings"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	sizes "github.com/paracuda/paracuda/gpubackend/size"
)

// The VM's device memory is counted by its workers and its mover themselves (package holdings).
// They may lie: so while there are processes, a goroutine asks the GPU's driver again and again
// what they have, and a worker is killed for which that is so much that the VM is over its bound.

// Tolerances are how much more than the bound the driver may have for a VM: what it takes by
// itself. A kernel's local memory is most of it on a real GPU.
const (
	toleranceCUDA = 512 << 20
	toleranceSoft = 64 << 20
)

// defaultAuditPause is between two looks.
const defaultAuditPause = time.Second

// newHoldings are those of the VM.
func newHoldings(c *Config) *holdings.Holdings {
	tolerance := uint64(toleranceSoft)
	if c.GPU == "cuda" {
		tolerance = toleranceCUDA
	}
	return holdings.New(holdings.Config{
		Page: c.Ledger, Tolerance: tolerance, Ask: c.Usage, Log: c.Log,
	})
}

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

// ledgerEntry is where a worker counts now; false for one that doesn't yet.
func (w *workerProcess) ledgerEntry() (int, bool) {
	switch {
	case w.entry != noEntry:
		return w.entry, true
	case w.warmEntry != noEntry:
		return ledger.Warm + w.warmEntry, true
	}
	return 0, false
}

// memory is what the worker has, of all GPUs together.
func (w *workerProcess) memory(h *holdings.Holdings) map[string]uint64 {
	entry, counts := w.ledgerEntry()
	if !counts {
		return nil
	}
	return h.Of(entry)
}

// beginAudit has the driver asked for as long as there are workers. Device.mu is held.
func (d *Device) beginAudit() {
	if !d.holdings.Counted() || d.auditing {
		return
	}
	d.auditing = true
	go d.guard("the audit of device memory", d.auditMemory)
}

// auditMemory looks until there are no workers.
func (d *Device) auditMemory() {
	pause := d.config.AuditPause
	if pause == 0 {
		pause = defaultAuditPause
	}
	for {
		d.mu.Lock()
		running := d.holders()
		d.holdings.Mark(running)
		if d.auditing = len(d.workers) > 0; !d.auditing {
			d.holdings.Look(nil, nil)
			d.restBusy()
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		usage := d.holdings.Usage(running)
		d.mu.Lock()
		for _, r := range d.holdings.Look(d.holders(), usage) {
			d.endHolder(r)
		}
		d.mu.Unlock()
		d.tellBusy(time.Now())
		time.Sleep(pause)
	}
}

// holders are the workers whose processes the driver can be asked about. Device.mu is held.
func (d *Device) holders() []ledger.Running {
	var list []ledger.Running
	for w := range d.workers {
		entry, counts := w.ledgerEntry()
		if p, ok := w.proc.(interface{ PID() int }); ok && counts {
			list = append(list, ledger.Running{Entry: entry, PID: p.PID()})
		}
	}
	return list
}

// endHolder kills a worker for which the driver has too much.
func (d *Device) endHolder(r ledger.Running) {
	for w := range d.workers {
		if entry, counts := w.ledgerEntry(); counts && entry == r.Entry && !w.killed.Load() {
			d.logOf(w).Warn("the GPU's driver has far more memory for the VM than it may have, " +
				"most of it for this program, which didn't count it: its worker is killed")
			w.kill()
		}
	}
}
