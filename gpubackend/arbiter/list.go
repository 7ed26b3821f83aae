// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// listAge is how old a list may be that is given out, so that frequent questions don't keep the
// loop busy.
const listAge = 100 * time.Millisecond

// list is what was told last about all VMs.
type list struct {
	mu   sync.Mutex
	made time.Time
	vms  []link.VM
}

// VMs lists the VMs that have joined, by name, as they were a moment ago. The list is shared.
func (a *Arbiter) VMs() []link.VM {
	l := &a.list
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.made) < listAge {
		return l.vms
	}
	l.vms = nil
	a.loop.do(func() {
		l.vms = make([]link.VM, 0, len(a.loop.members))
		a.loop.scheduler.EachStats(a.loop.clock.now(), func(id turns.ID, s turns.Stats) {
			v := a.loop.members[id].tell(s)
			a.loop.tellMemory(&v, a.loop.members[id])
			l.vms = append(l.vms, v)
		})
	})
	slices.SortFunc(l.vms, func(a, b link.VM) int { return cmp.Compare(a.Name, b.Name) })
	l.made = time.Now()
	return l.vms
}

// forget drops the list, after an operator has changed something.
func (l *list) forget() {
	l.mu.Lock()
	l.made = time.Time{}
	l.mu.Unlock()
}

// sendList sends all VMs, each in a message of its own.
func (a *Arbiter) sendList(c *link.Conn) {
	vms := a.VMs()
	for i := range vms {
		if !send(c, &link.Answer{VMs: vms[i : i+1], More: true}) {
			return
		}
	}
	send(c, &link.Answer{})
}
