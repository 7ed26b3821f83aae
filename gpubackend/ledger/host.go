// SPDX-License-Identifier: Apache-2.0

package ledger

import "sync"

// HostAccount is what a process holds of the host's memory, for which all processes of the VM share
// a bound. Many goroutines may use it. A process that is started ahead of use has it before it has
// an entry.
type HostAccount struct {
	mu    sync.Mutex
	held  uint64
	page  *Page // nil: counted once there is one
	entry *word
}

// SetHostBound bounds what all processes of the VM may take of the host's memory; 0 is no bound.
// What they have stays, even above it.
func (p *Page) SetHostBound(bytes uint64) { p.hostBound().Store(bytes) }

// HostBound is what SetHostBound last set.
func (p *Page) HostBound() uint64 { return p.hostBound().Load() }

// HostTaken is what all processes of the VM have of the host's memory.
func (p *Page) HostTaken() uint64 { return p.hostTaken().Load() }

func (p *Page) hostBound() *word       { return wordAt(p.mem, hostBoundAt) }
func (p *Page) hostTaken() *word       { return wordAt(p.mem, hostTakenAt) }
func (p *Page) hostHeld(i int) *word   { return wordAt(p.mem, hostHeldAt+8*i) }
func (p *Page) endHost(entry int)      { give(p.hostTaken(), p.hostHeld(entry).Swap(0)) }
func (p *Page) hasHost(entry int) bool { return p.hostHeld(entry).Load() != 0 }

// Join gives the process its entry of a page. What it held in another entry of that page moves.
func (a *HostAccount) Join(page *Page, entry int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.entry
	a.page, a.entry = page, page.hostHeld(entry)
	a.entry.Store(a.held)
	if before != nil {
		give(before, a.held)
	} else {
		page.hostTaken().Add(a.held)
	}
}

// Take takes memory if the VM may have it.
func (a *HostAccount) Take(bytes uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.page != nil {
		taken := a.page.hostTaken()
		for {
			had := taken.Load()
			if exceeds(had, bytes, a.page.HostBound()) {
				return false
			}
			if taken.CompareAndSwap(had, had+bytes) {
				break
			}
		}
	}
	a.hold(a.held + bytes)
	return true
}

// Force takes memory that is there already: nobody is asked.
func (a *HostAccount) Force(bytes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.page != nil {
		a.page.hostTaken().Add(bytes)
	}
	a.hold(a.held + bytes)
}

// Give gives back what was taken.
func (a *HostAccount) Give(bytes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	bytes = min(bytes, a.held)
	if a.hold(a.held - bytes); a.page != nil {
		give(a.page.hostTaken(), bytes)
	}
}

// hold writes what is held to the entry. mu is held.
func (a *HostAccount) hold(bytes uint64) {
	if a.held = bytes; a.entry != nil {
		a.entry.Store(bytes)
	}
}

// hostSeen is the audit's side: the bound, and what the last look found.
type hostSeen struct{ bound, taken, sum uint64 }

// SetHostBound bounds what all processes of the VM may take of the host's memory; 0 is no bound.
func (a *Audit) SetHostBound(bytes uint64) {
	a.host.bound = bytes
	a.page.SetHostBound(bytes)
}

// settleHost writes the bound again, and sets the sum to that of the entries if neither has changed
// since the last Look.
func (a *Audit) settleHost() {
	h := &a.host
	a.page.SetHostBound(h.bound)
	taken, sum := a.page.HostTaken(), uint64(0)
	for i := range Entries {
		sum += a.page.hostHeld(i).Load()
	}
	if taken != sum && taken == h.taken && sum == h.sum &&
		a.page.hostTaken().CompareAndSwap(taken, sum) {
		taken = sum
	}
	h.taken, h.sum = taken, sum
}
