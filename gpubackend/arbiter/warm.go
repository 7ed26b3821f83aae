// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/grants"
)

// Warm workers belong to their VM from their start on: they have its namespaces. How many there are
// on a host the arbiter decides (package grants): device processes say how many they would keep,
// and are told how many they may.

// DefaultWarm is how many warm workers a GPU's VMs may have together, unless somebody says
// otherwise: on an H100 their contexts take a tenth of its memory.
const DefaultWarm = 16

// MaxWarm is the most that can be said.
const MaxWarm = 1024

// ready is a member's part in the warm workers.
type ready struct {
	want    int
	used    time.Duration
	granted int
	news    chan struct{} // has something when another number is granted
}

// home is the GPU on which its warm workers have their contexts.
func (m *member) home() string {
	if len(m.gpus) == 0 {
		return ""
	}
	return m.gpus[0].Name
}

// wants takes what a device process says of its VM's warm workers.
func (l *loop) wants(m *member, w *link.Warm) {
	want := min(max(w.Want, 0), MaxWarm)
	used := time.Duration(min(w.Used, uint64(Now())))
	if l.members[m.id] != m || m.ready.want == want && m.ready.used == used {
		return
	}
	m.ready.want, m.ready.used = want, used
	l.grant(m.home())
}

// grant says anew how many warm workers the VMs of a GPU may keep.
func (l *loop) grant(gpu string) {
	var members []*member
	var vms []grants.VM
	for _, m := range l.members {
		if m.home() == gpu {
			members = append(members, m)
			vms = append(vms, grants.VM{Want: m.ready.want, Used: m.ready.used,
				Has: m.ready.granted})
		}
	}
	for i, n := range grants.Of(l.warm, vms) {
		r := &members[i].ready
		if r.granted == n {
			continue
		}
		r.granted = n
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
}

// granted is how many a member may keep.
func (a *Arbiter) granted(m *member) *int {
	n := 0
	a.loop.do(func() { n = m.ready.granted })
	return &n
}
