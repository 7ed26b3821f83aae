// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/grants"
)

// Warm workers belong to their VM from the start: they have its namespaces. The arbiter decides how
// many there are on a host (package grants): device processes say how many they want, and are told
// how many they may keep.

// A VM has the same number on each of its GPUs: the least that it is granted on any of them.

// DefaultWarm is how many warm workers a GPU's VMs may have together, unless the operator says
// otherwise: on an H100 their contexts take a tenth of its memory.
const DefaultWarm = 16

// MaxWarm is the most that can be set.
const MaxWarm = 1024

// ready is what a member wants and is granted of warm workers.
type ready struct {
	want    int
	used    time.Duration
	on      map[string]int // how many it is granted, by GPU
	granted int            // the least of these
	news    chan struct{}  // has something when another number is granted
}

// isOn says whether the member has a GPU. A member that names no GPU has the one without a name.
func (m *member) isOn(gpu string) bool { return m.has(gpu) || len(m.gpus) == 0 && gpu == "" }

// wants takes how many warm workers a device process wants.
func (l *loop) wants(m *member, w *link.Warm) {
	want := min(max(w.Want, 0), MaxWarm)
	used := time.Duration(min(w.Used, uint64(Now())))
	if l.members[m.id] != m || m.ready.want == want && m.ready.used == used {
		return
	}
	m.ready.want, m.ready.used = want, used
	l.grant(m)
}

// grant decides again how many warm workers the VMs may keep that share GPUs with a member. The
// member may have left.
func (l *loop) grant(m *member) {
	if len(m.gpus) == 0 {
		l.grantOn("")
	}
	for i := range m.gpus {
		l.grantOn(m.gpus[i].Name)
	}
}

// grantOn does so for one GPU.
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

// grant grants a member a number of warm workers on one of its GPUs.
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

// granted is how many warm workers a member may keep.
func (a *Arbiter) granted(m *member) *int {
	n := 0
	a.loop.do(func() { n = m.ready.granted })
	return &n
}
