// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"math"
	"slices"
)

// Usage is what the driver says of the host's GPUs and processes, at one moment.
type Usage interface {
	// GPUs are the ids of the host's GPUs.
	GPUs() []uint64
	// Used is what a process has of a GPU. ok is false if the driver doesn't say.
	Used(gpu uint64, pid int) (bytes uint64, ok bool)
}

// Running is a process that may hold memory.
type Running struct {
	Entry int
	PID   int // on the host
	// Ready says that its contexts are complete, and that it does nothing.
	Ready bool
}

// Audit is the device process's side of a page. It decides by its own numbers and the driver's, not
// by the page. One goroutine uses it.
type Audit struct {
	page      *Page
	bound     uint64
	tolerance uint64
	seen      map[uint64]*seen // by the GPU's id
	marked    [Entries]bool    // at the last Mark
	ready     [Entries]bool    // at the last Mark
	host      hostSeen
}

// seen is a GPU, and what the last Look found.
type seen struct {
	id         uint64
	gpu        *GPU
	taken, sum uint64          // of the page
	took       [Entries]uint64 // at the last Mark
	allowed    uint64          // the bound, or what the VM had when the bound was lowered
	over       bool            // the driver had more than is tolerated
}

// NewAudit returns the audit of a page without a bound. tolerance is how much more than the bound
// the driver may have for the VM: memory that the driver takes by itself.
func NewAudit(page *Page, tolerance uint64) *Audit {
	return &Audit{page: page, tolerance: tolerance, seen: make(map[uint64]*seen)}
}

// SetBound bounds what the VM may have of each GPU; 0 is no bound. What it has stays.
func (a *Audit) SetBound(bytes uint64) {
	for _, s := range a.seen {
		if a.bound == 0 {
			s.allowed = math.MaxUint64
		}
		s.allowed = max(s.allowed, a.bound)
	}
	a.bound = bytes
	a.page.SetBound(bytes)
}

// Begin says to which guest process an entry belongs from now on; 0: none.
func (a *Audit) Begin(entry int, guestPID int32) {
	for _, g := range a.page.sections {
		g.entry(entry).pid().Store(uint64(uint32(guestPID)))
	}
}

// End gives back what an entry's process held, which has ended.
func (a *Audit) End(entry int) {
	for _, g := range a.page.sections {
		s := g.entry(entry)
		s.pid().Store(0)
		freed := s.other().Swap(0)
		for k := range kinds {
			freed += s.kind(k).Swap(0)
		}
		give(g.taken, freed)
	}
	a.page.endHost(entry)
}

// Empty takes back what somebody has written to an entry that no process has.
func (a *Audit) Empty(entry int) {
	if a.page.hasHost(entry) {
		a.page.endHost(entry)
	}
	for _, g := range a.page.sections {
		if h := g.Holding(entry); h.PID != 0 || h.Sum() != 0 {
			a.End(entry)
			return
		}
	}
}

// Mark is called before the driver is asked: the driver can't name more for a process than the most
// that it holds from now on. A process that begins later isn't looked at.
func (a *Audit) Mark(running []Running) {
	clear(a.marked[:])
	clear(a.ready[:])
	for _, s := range a.seen {
		for _, r := range running {
			s.gpu.entry(r.Entry).peak().Store(0)
			h := s.gpu.Holding(r.Entry)
			s.took[r.Entry] = h.Took()
		}
	}
	for _, r := range running {
		a.marked[r.Entry], a.ready[r.Entry] = true, r.Ready
	}
}

// Look compares the page with the driver, and returns the processes to end, if the driver has more
// for the VM than it may have. usage is nil if the driver says nothing.
func (a *Audit) Look(running []Running, usage Usage) (end []Running) {
	a.page.SetBound(a.bound)
	if usage != nil {
		for _, id := range usage.GPUs() {
			s := a.of(id)
			if r, over := a.compare(s, running, usage); over {
				end = append(end, r)
			}
		}
	}
	a.find()
	for _, s := range a.seen {
		s.settle()
	}
	a.settleHost()
	return end
}

// find notes the GPUs that processes have named: at most as many as a page has room for, whatever
// is written there.
func (a *Audit) find() {
	for _, g := range a.page.Known() {
		if len(a.seen) < GPUs {
			a.of(g.ID())
		}
	}
}

// Known are the GPUs that somebody uses or the driver has named, with what their entries say.
func (a *Audit) Known() []*GPU {
	a.find()
	var list []*GPU
	for _, s := range a.seen {
		list = append(list, s.gpu)
	}
	slices.SortFunc(list, func(x, y *GPU) int { return cmp.Compare(x.at, y.at) })
	return list
}

// of returns what is known about a GPU. Its section stays the same, whatever is written to the
// page.
func (a *Audit) of(id uint64) *seen {
	s := a.seen[id]
	if s == nil {
		s = &seen{id: id, allowed: a.bound}
		if s.gpu = a.page.GPU(id); s.gpu == nil {
			s.gpu = a.page.sections[GPUs-1]
		}
		a.seen[id] = s
	}
	s.gpu.id.Store(id)
	return s
}

// compare counts what the driver has beyond the entries, and says which process is to end, if any.
// That is the worker of a guest process that has most beyond what it took; if none has, the one
// that has most. The VM must have too much at two looks in a row.
func (a *Audit) compare(s *seen, running []Running, usage Usage) (worst Running, end bool) {
	var all, most, mostUsed uint64
	for _, r := range running {
		used, ok := usage.Used(s.id, r.PID)
		if !ok || !a.marked[r.Entry] {
			continue
		}
		h := s.gpu.Holding(r.Entry)
		took := max(s.took[r.Entry], h.Took(), s.gpu.entry(r.Entry).peak().Load())
		beyond := used - min(used, took)
		s.gpu.setOther(r.Entry, beyond)
		all += used
		switch {
		case a.ready[r.Entry] && used != 0 && h.onlyContexts() && h.Took() == took:
			s.gpu.SetContext(used)
		case r.Entry < Workers && (beyond > most || beyond == most && used > mostUsed):
			worst, most, mostUsed = r, beyond, used
		}
	}
	s.allowed = max(a.bound, min(s.allowed, all))
	was := s.over
	s.over = a.bound != 0 && all > s.allowed && all-s.allowed > a.tolerance
	return worst, s.over && was && mostUsed != 0
}

// onlyContexts says whether nothing but contexts is held.
func (h *Holding) onlyContexts() bool {
	return h.Kinds[Contexts] != 0 && h.Took() == h.Kinds[Contexts]
}

// setOther sets what a process has beyond what it took.
func (g *GPU) setOther(entry int, bytes uint64) {
	had := g.entry(entry).other().Swap(bytes)
	if bytes >= had {
		g.taken.Add(bytes - had)
		return
	}
	give(g.taken, had-bytes)
}

// settle sets the sum to that of the entries, if neither has changed since the last Look. They
// differ if a process was killed between two writes, or lies.
func (s *seen) settle() {
	taken, sum := s.gpu.Taken(), uint64(0)
	for i := range Entries {
		h := s.gpu.Holding(i)
		sum += h.Sum()
	}
	if taken != sum && taken == s.taken && sum == s.sum && s.gpu.taken.CompareAndSwap(taken, sum) {
		taken = sum
	}
	s.taken, s.sum = taken, sum
}
