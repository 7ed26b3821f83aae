// SPDX-License-Identifier: Apache-2.0

// Package holdings is the device memory that the processes of a VM hold, as its device process sees
// it: by a ledger in which they count it themselves, and by what the GPU's driver says.
//
// # Who owns what
//
// Package accounts owns Holdings, and calls all methods but Usage under its own lock. The page is
// its caller's. Each process has an entry of the page, which the device chooses.
//
// # Who may lie
//
// The processes, about what they hold: the driver is asked, and Look says which processes must end.
// If the driver doesn't answer, that is logged once, and they are believed.
package holdings

import (
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// Config is what Holdings are made of.
type Config struct {
	Page *ledger.Page // nil: nobody counts
	// Tolerance is how much more than the bound the driver may have for the VM.
	Tolerance uint64
	// Ask asks the GPU's driver what these processes of the host have; nil: it can't be asked.
	Ask func(pids []int) (ledger.Usage, error)
	Log *logrus.Entry
}

// Holdings are a VM's. Without a page they are empty, and stay so.
type Holdings struct {
	Config
	audit  *ledger.Audit // nil without a page
	bound  uint64
	silent sync.Once // logs that the driver doesn't answer
}

// New makes the holdings of a VM without a bound.
func New(c Config) *Holdings {
	h := &Holdings{Config: c}
	if c.Page != nil {
		h.audit = ledger.NewAudit(c.Page, c.Tolerance)
	}
	return h
}

// Counted says whether anybody counts.
func (h *Holdings) Counted() bool { return h.audit != nil }

// SetBound bounds what the VM may have of each GPU; 0 is no bound.
func (h *Holdings) SetBound(bytes uint64) {
	h.bound = bytes
	if h.audit != nil {
		h.audit.SetBound(bytes)
	}
}

// SetHostBound bounds what the VM's processes may take of the host's memory; 0 is no bound.
func (h *Holdings) SetHostBound(bytes uint64) {
	if h.audit != nil {
		h.audit.SetHostBound(bytes)
	}
}

// Pass adds the page to a message to a process, and its entry.
func (h *Holdings) Pass(m *handover.Message, fds []int, entry int) []int {
	if h.Page == nil {
		return fds
	}
	m.Entry, m.Files.Ledger = entry, true
	return append(fds, h.Page.FD())
}

// Begin gives an entry to the process that serves a guest process.
func (h *Holdings) Begin(entry int, guestPID int32) {
	if h.audit != nil {
		h.audit.Begin(entry, guestPID)
	}
}

// End takes back the entry of a process that has ended, and what it held.
func (h *Holdings) End(entry int) {
	if h.audit != nil {
		h.audit.End(entry)
	}
}

// Empty takes back what is in an entry that no process has.
func (h *Holdings) Empty(entry int) {
	if h.audit != nil {
		h.audit.Empty(entry)
	}
}

// Mark notes what these processes count, before the driver is asked.
func (h *Holdings) Mark(running []ledger.Running) { h.audit.Mark(running) }

// Look compares what processes count with what the driver says. It returns the processes that hold
// more than they count, if the VM is over its bound.
func (h *Holdings) Look(running []ledger.Running, usage ledger.Usage) (end []ledger.Running) {
	return h.audit.Look(running, usage)
}

// Usage asks the driver; nil if it doesn't answer. It may take a while.
func (h *Holdings) Usage(running []ledger.Running) ledger.Usage {
	if h.Ask == nil || len(running) == 0 {
		return nil
	}
	pids := make([]int, len(running))
	for i, r := range running {
		pids[i] = r.PID
	}
	usage, err := h.Ask(pids)
	if err != nil {
		h.silent.Do(func() {
			h.Log.WithError(err).Warn("the GPU's driver doesn't say how much memory " +
				"programs have: the counts of their workers are believed")
		})
		return nil
	}
	return usage
}
