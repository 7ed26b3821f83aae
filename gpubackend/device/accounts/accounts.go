// SPDX-License-Identifier: Apache-2.0

// Package accounts knows what the processes of a VM take of the GPU: their entries on pages that
// all of them share, device memory (package holdings), and the GPU's time; and how much of the
// host's memory workers have.
//
// # Who owns what
//
// Accounts has a lock of its own, under which it calls nobody and never waits: it may be called
// with any other lock held. Functions of Config are called without it.
//
// # Who may lie
//
// Processes, about the memory that they count. So while there are any, a goroutine asks the GPU's
// driver now and then what each has, and picks one to end if the VM exceeds its bound. It asks the
// kernel the same of the host's memory.
//
// # Files
//
// accounts.go, entries.go, audit.go, hostuse.go (the host's memory), busy.go (for how long the GPU
// is kept busy).
package accounts

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/holdings"
	"github.com/paracuda/paracuda/gpubackend/hostuse"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// Process is a worker. It is compared by identity.
type Process interface {
	// PID is its process id on the host; false: the driver can't be asked about it.
	PID() (int, bool)
	// TooMuch says that it holds far more memory than it counted, and must end.
	TooMuch()
	// TooHeavy says that it has too much of the host's memory, or its VM has, and must end.
	TooHeavy(why string)
}

// Config is what Accounts are made of.
type Config struct {
	Page      *ledger.Page // in which device memory is counted; nil: nobody counts
	Gate      *gate.Page   // at which the GPU's time is counted; nil: it isn't
	Tolerance uint64       // how much more than the bound the driver may have
	// Ask asks the GPU's driver what these processes of the host have; nil: it can't be asked. It
	// may take a while.
	Ask func(pids []int) (ledger.Usage, error)
	// Weigh asks the kernel how much of the host's memory these processes have; nil: it can't be
	// asked. Number 0 has the files of those that have ended. Holding is what else is known of one.
	Weigh   func(pids []int) (map[int]hostuse.Bytes, error)
	Holding func(Process) Holding
	Pause   time.Duration // between two of these questions; 0: a second
	// GPUTime is for how many nanoseconds all workers together have kept the GPU busy.
	GPUTime func() uint64
	// Guard runs a part of this package, and survives its faults.
	Guard func(part string, f func()) bool
	Log   *logrus.Entry
}

// Accounts are those of a VM.
type Accounts struct {
	config   Config
	mu       sync.Mutex
	holdings *holdings.Holdings // guarded by mu, as is what follows
	running  map[Process]*places
	served   entries // of workers that have had a channel
	ahead    entries // of those that were started ahead of use, in the ledger
	busy     busy
	auditing bool // audit runs
	host     HostBounds

	unweighed sync.Once
	heavy     map[Process]excess // at the last look; audit alone uses it
}

// places are where a process counts.
type places struct {
	served, ahead int  // noEntry: nowhere
	ready         bool // its contexts are complete, and it serves nobody
}

// ledger is its place in the ledger; false if it has none yet.
func (p *places) ledger() (int, bool) {
	switch {
	case p.served != noEntry:
		return p.served, true
	case p.ahead != noEntry:
		return ledger.Warm + p.ahead, true
	}
	return 0, false
}

// New makes the accounts of a VM without processes, and without a bound.
func New(c Config) *Accounts {
	return &Accounts{config: c, running: map[Process]*places{},
		holdings: holdings.New(holdings.Config{
			Page: c.Page, Tolerance: c.Tolerance, Ask: c.Ask, Log: c.Log,
		})}
}

// SetBounds bounds what the VM may have of each GPU, and its processes of the host's memory as they
// count it; 0 is no bound.
func (a *Accounts) SetBounds(device, host uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holdings.SetBound(device)
	a.holdings.SetHostBound(host)
}

// SetHost bounds what workers may have of the host's memory, as the kernel counts it.
func (a *Accounts) SetHost(h HostBounds) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.host = h
}

// Began is told of a process that serves nobody yet.
func (a *Accounts) Began(p Process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[p] = &places{served: noEntry, ahead: noEntry}
	a.beginAudit()
}

// Ahead gives a process that is started ahead of use a place of its own in the ledger.
func (a *Accounts) Ahead(p Process) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	entry, err := a.ahead.take()
	if err != nil {
		return err
	}
	if x := a.running[p]; x != nil {
		x.ahead = entry
		return nil
	}
	a.ahead.free(entry) // it has ended
	return nil
}

// Ready is told that a process that was started ahead of use has made its contexts, so that the
// driver's figure for it says what a context takes.
func (a *Accounts) Ready(p Process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.running[p]; x != nil {
		x.ready = true
	}
}

// Reserve takes an entry for a process that is to serve a guest process.
func (a *Accounts) Reserve() (entry int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.served.take()
}

// Release gives back an entry that was given to no process.
func (a *Accounts) Release(entry int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.served.free(entry)
}

// Serve gives a process its entry, until it has ended, with the guest process that it serves.
func (a *Accounts) Serve(p Process, entry int, guestPID int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.running[p]
	if x == nil { // it has ended
		a.served.free(entry)
		return
	}
	x.served, x.ready = entry, false
	a.holdings.Begin(entry, guestPID)
}

// TakeOver is told of a process that already serves a guest process, and counts in that entry.
func (a *Accounts) TakeOver(p Process, entry int, guestPID int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[p] = &places{served: entry, ahead: noEntry}
	a.served |= 1 << entry
	a.holdings.Begin(entry, guestPID)
	a.beginAudit()
}

// DropOthers takes back what processes had that weren't taken over.
func (a *Accounts) DropOthers(mover bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !mover {
		a.holdings.End(ledger.Mover)
	}
	for entry := range ledger.Workers {
		a.holdings.End(ledger.Warm + entry)
		if a.served&(1<<entry) != 0 {
			continue
		}
		a.holdings.End(entry)
		if a.config.Gate != nil {
			a.config.Gate.Clear(entry)
		}
	}
}

// Ended takes back what a process had, whose work has ended.
func (a *Accounts) Ended(p Process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.running[p]
	if x == nil {
		return
	}
	delete(a.running, p)
	if x.ahead != noEntry {
		a.holdings.End(ledger.Warm + x.ahead)
		a.ahead.free(x.ahead)
	}
	if x.served != noEntry {
		a.holdings.End(x.served)
		if a.config.Gate != nil {
			a.config.Gate.Clear(x.served)
		}
		a.served.free(x.served)
	}
	a.emptyFree()
}

// emptyFree clears what processes that have ended wrote to entries that nobody has.
func (a *Accounts) emptyFree() {
	for entry := range ledger.Workers {
		if a.served&(1<<entry) == 0 {
			a.holdings.Empty(entry)
		}
		if a.ahead&(1<<entry) == 0 {
			a.holdings.Empty(ledger.Warm + entry)
		}
	}
}

// MoverEnded is told that there is no mover.
func (a *Accounts) MoverEnded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holdings.End(ledger.Mover)
}

// Runs says whether a process has begun and not ended.
func (a *Accounts) Runs(p Process) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running[p] != nil
}

// Serving says whether a process serves a guest process, or has done so and hasn't ended.
func (a *Accounts) Serving() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.served != 0
}

// Pass adds the pages to a message to a process, and its entry.
func (a *Accounts) Pass(m *handover.Message, fds []int, p Process) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.running[p]
	if x == nil { // it has ended
		return fds
	}
	if x.served != noEntry {
		fds = a.passGate(m, fds, x.served)
	}
	entry, _ := x.ledger()
	return a.holdings.Pass(m, fds, entry)
}

// passGate adds the gate to a message to a process that serves a guest process.
func (a *Accounts) passGate(m *handover.Message, fds []int, entry int) []int {
	m.Entry = entry
	if a.config.Gate == nil {
		return fds
	}
	memory, bell, opened := a.config.Gate.FDs()
	m.Files.Gate = true
	return append(fds, memory, bell, opened)
}

// PassMover adds the ledger to a message to the mover.
func (a *Accounts) PassMover(m *handover.Message, fds []int) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.holdings.Pass(m, fds, ledger.Mover)
}

// Entry is where a process counts in the ledger now; false for one that doesn't yet.
func (a *Accounts) Entry(p Process) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.entry(p)
}

// entry is Entry, for callers that hold mu.
func (a *Accounts) entry(p Process) (int, bool) {
	if x := a.running[p]; x != nil {
		return x.ledger()
	}
	return noEntry, false
}

// Of is what a process has, of all GPUs together; nil if nobody counts.
func (a *Accounts) Of(p Process) map[string]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if entry, counts := a.entry(p); counts {
		return a.holdings.Of(entry)
	}
	return nil
}

// OfEach is what a process has of each GPU, by the ledger's ids of them; nil if nobody counts.
func (a *Accounts) OfEach(p Process) map[uint64]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if entry, counts := a.entry(p); counts {
		return a.holdings.OfEach(entry)
	}
	return nil
}

// All is what the VM has of all GPUs together, by kind; nil if nobody counts.
func (a *Accounts) All() map[string]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.holdings.All()
}

// On is what the VM has on each of these GPUs, which the ledger's ids name; nil if nobody counts.
func (a *Accounts) On(ids []uint64) []uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.holdings.On(ids)
}

// Sum is all that the VM has, of all GPUs together.
func (a *Accounts) Sum() (bytes uint64) {
	for _, n := range a.All() {
		bytes += n
	}
	return bytes
}

// GPUs are those that the VM uses.
func (a *Accounts) GPUs() []holdings.GPU {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.holdings.GPUs()
}
