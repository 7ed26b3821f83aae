// SPDX-License-Identifier: Apache-2.0

package accounts

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// defaultPause is the pause between two looks.
const defaultPause = time.Second

// beginAudit begins to ask the driver, for as long as there are processes.
func (a *Accounts) beginAudit() {
	if !a.holdings.Counted() || a.auditing {
		return
	}
	a.auditing = true
	go a.config.Guard("the audit of device memory", a.audit)
}

// audit looks until there are no processes.
func (a *Accounts) audit() {
	pause := a.config.Pause
	if pause == 0 {
		pause = defaultPause
	}
	for {
		running, goesOn := a.mark()
		if !goesOn {
			return
		}
		for _, p := range a.look(a.holdings.Usage(running)) {
			p.TooMuch()
		}
		a.weigh()
		a.tellBusy(time.Now())
		time.Sleep(pause)
	}
}

// mark notes what the processes count, before the driver is asked. Without any, the audit ends.
func (a *Accounts) mark() (running []ledger.Running, goesOn bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	running = a.holders()
	a.holdings.Mark(running)
	if a.auditing = len(a.running) > 0; !a.auditing {
		a.holdings.Look(nil, nil)
		a.restBusy()
	}
	return running, a.auditing
}

// look compares that with what the driver said, and returns the processes to end.
func (a *Accounts) look(usage ledger.Usage) (end []Process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.holdings.Look(a.holders(), usage) {
		for p, x := range a.running {
			if entry, counts := x.ledger(); counts && entry == r.Entry {
				end = append(end, p)
			}
		}
	}
	return end
}

// holders are the processes that the driver can be asked about.
func (a *Accounts) holders() (list []ledger.Running) {
	for p, x := range a.running {
		entry, counts := x.ledger()
		if pid, known := p.PID(); known && counts {
			list = append(list, ledger.Running{Entry: entry, PID: pid, Ready: x.ready})
		}
	}
	return list
}
