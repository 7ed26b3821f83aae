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

// A VM has as many on each of its GPUs: where it has several, as many as it is granted on all of
// them.

// DefaultWarm is how many warm workers a GPU's VMs may have together, unless somebody says
// otherwise: on an H100 their contexts take a tenth of its memory.
const DefaultWarm = 16

// MaxWarm is the most that can be said.
const MaxWarm = 1024

// ready is a member's part in the warm workers, of which it wants so many on each of its GPUs.
type ready struct {
	want    int
	used    time.Duration
	on      map[string]int // how many it is granted, by GPU
	granted int            // the least of these
	news    chan struct{}  // has something when another number is granted
}

// isOn says whether the member has a GPU. One that tells of none has the one without a name.
func (m *member) isOn(gpu string) bool { return m.has(gpu) || len(m.gpus) == 0 && gpu == "" }

// wants takes what a device process says of its VM's warm workers.
func (l *loop) wants(m *member, w *link.Warm) {
	want := min(max(w.Want, 0), MaxWarm)
	used := time.Duration(min(w.Used, uint64(Now())))
	if l.members[m.id] != m || m.ready.want == want && m.ready.used == used {
		return
	}
	m.ready.want, m.ready.used = want, used
	l.grant(m)
}

// grant says anew how many warm workers the VMs may keep that share GPUs with a member, which may
// be one that has left.
func (l *loop) grant(m *member) {
	if len(m.gpus) == 0 {
		l.grantOn("")
	}
	for i := range m.gpus {
		l.grantOn(m.gpus[i].Name)
	}
}

// grantOn is the same for one GPU.
func (l *loop) grantOn(gpu string) {
	var members []*member
	var vms []grants.VM
	for _, m := range l.members {
		if m.isOn(gpu) {
			members = append(members, m)
			vms = append(vms, grants.VM{Want: m.ready.want, Used: m.ready.used,
				Has: m.ready.on[gpu]})
		}
	}
	for i, n := range grants.Of(l.warm, vms) {
		members[i].ready.grant(gpu, n, max(1, len(members[i].gpus)))
	}
}

// grant grants so many on one of so many GPUs.
func (r *ready) grant(gpu string, n, gpus int) {
	if r.on == nil {
		r.on = map[string]int{}
	}
	r.on[gpu] = n
	least := n
	for _, on := range r.on {
		least = min(least, on)
	}
	if len(r.on) < gpus || least == r.granted {
		return
	}
	r.granted = least
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// granted is how many a member may keep.
func (a *Arbiter) granted(m *member) *int {
	n := 0
	a.loop.do(func() { n = m.ready.granted })
	return &n
}
