// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	sizes "github.com/paracuda/paracuda/gpubackend/size"
)

// The VM's device memory is counted in a ledger, by its workers and its mover themselves. They may
// lie: so while there are processes, a goroutine asks the GPU's driver again and again what they
// have, and a worker is killed for which the driver has so much that the VM is over its bound.

// Tolerances are how much more than the bound the driver may have for a VM: what it takes by
// itself. A kernel's local memory is most of it on a real GPU.
const (
	toleranceCUDA = 512 << 20
	toleranceSoft = 64 << 20
)

// defaultAuditPause is between two looks.
const defaultAuditPause = time.Second

// newAudit returns the audit of a VM's ledger; nil without one.
func newAudit(c *Config) *ledger.Audit {
	switch {
	case c.Ledger == nil:
		return nil
	case c.GPU == "cuda":
		return ledger.NewAudit(c.Ledger, toleranceCUDA)
	}
	return ledger.NewAudit(c.Ledger, toleranceSoft)
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

// setBound has the bound hold. Device.mu is held.
func (d *Device) setBound() {
	if d.audit != nil {
		d.audit.SetBound(d.settings.memoryBound(d.config.GPU))
	}
}

// passLedger adds the ledger to a message, and an entry of it.
func (d *Device) passLedger(m *handover.Message, fds []int, entry int) []int {
	if d.config.Ledger == nil {
		return fds
	}
	m.Entry, m.Files.Ledger = entry, true
	return append(fds, d.config.Ledger.FD())
}

// warmEntry gives a warm worker an entry of the ledger; it has that until its process has ended.
func (d *Device) warmEntry(w *workerProcess) error {
	entry, err := d.warmEntries.take()
	if err != nil {
		return err
	}
	w.warmEntry = entry
	return nil
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

// endLedger gives back what a worker held whose process has ended. Device.mu is held.
func (d *Device) endLedger(w *workerProcess) {
	if d.audit != nil && w.entry != noEntry {
		d.audit.End(w.entry)
	}
	if w.warmEntry == noEntry {
		return
	}
	if d.audit != nil {
		d.audit.End(ledger.Warm + w.warmEntry)
	}
	d.warmEntries.free(w.warmEntry)
	w.warmEntry = noEntry
}

// beginAudit has the driver asked for as long as there are workers. Device.mu is held.
func (d *Device) beginAudit() {
	if d.audit == nil || d.auditing {
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
		d.audit.Mark(running)
		if d.auditing = len(d.workers) > 0; !d.auditing {
			d.audit.Look(nil, nil)
			d.restBusy()
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		usage := d.usage(running)
		d.mu.Lock()
		for _, r := range d.audit.Look(d.holders(), usage) {
			d.endHolder(r)
		}
		d.mu.Unlock()
		d.tellBusy(time.Now())
		time.Sleep(pause)
	}
}

// usage asks the driver; nil where it doesn't say, which is logged once.
func (d *Device) usage(running []ledger.Running) ledger.Usage {
	if d.config.Usage == nil || len(running) == 0 {
		return nil
	}
	pids := make([]int, len(running))
	for i, r := range running {
		pids[i] = r.PID
	}
	usage, err := d.config.Usage(pids)
	if err != nil {
		d.unaudited.Do(func() {
			d.log.WithError(err).Warn("the GPU's driver doesn't say how much memory " +
				"programs have: what their workers themselves count is believed")
		})
		return nil
	}
	return usage
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

// Memory is what a VM has of one GPU.
type Memory struct {
	Bound uint64            `json:"bound,omitempty"` // 0: none
	Used  uint64            `json:"used"`
	Kinds map[string]uint64 `json:"kinds"`
	Mover map[string]uint64 `json:"mover,omitempty"` // what of that the mover has
	Warm  map[string]uint64 `json:"warm,omitempty"`  // what workers have that are kept warm
}

// memory is what the VM has of each GPU that it uses. Device.mu is held.
func (d *Device) memory() []Memory {
	if d.audit == nil {
		return nil
	}
	var list []Memory
	for _, g := range d.audit.Known() {
		var all, warm ledger.Holding
		for entry := range ledger.Entries {
			h := g.Holding(entry)
			all.Add(h)
			if entry >= ledger.Warm {
				warm.Add(h)
			}
		}
		mover := g.Holding(ledger.Mover)
		list = append(list, Memory{
			Bound: d.settings.memoryBound(d.config.GPU), Used: all.Sum(), Kinds: all.Map(),
			Mover: mover.Map(), Warm: warm.Map(),
		})
	}
	return list
}

// kinds are what the VM has of all GPUs together. Device.mu is held.
func (d *Device) kinds() map[string]uint64 {
	if d.audit == nil {
		return nil
	}
	var all ledger.Holding
	for _, g := range d.audit.Known() {
		for entry := range ledger.Entries {
			all.Add(g.Holding(entry))
		}
	}
	return all.Map()
}

// memoryOf is what a worker has, of all GPUs together. Device.mu is held.
func (d *Device) memoryOf(w *workerProcess) map[string]uint64 {
	entry, counts := w.ledgerEntry()
	if d.audit == nil || !counts {
		return nil
	}
	var all ledger.Holding
	for _, g := range d.audit.Known() {
		all.Add(g.Holding(entry))
	}
	return all.Map()
}
