// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/size"
)

// claim is what was chosen for a VM that will join.
type claim struct {
	name      string
	gpus      []string
	room      uint64
	exclusive bool
}

// choose chooses GPUs for a VM, and keeps them for it until the connection ends.
func (a *Arbiter) choose(c *link.Conn, r *link.Request) {
	var mine *claim
	answer, err := &link.Answer{}, error(errEnded)
	a.loop.do(func() {
		if mine, answer.Chosen, err = a.loop.choose(r); err == nil {
			a.loop.claims[mine] = true
		}
	})
	if err != nil {
		refuse(c, err)
		return
	}
	defer a.loop.do(func() { delete(a.loop.claims, mine) })
	if send(c, answer) {
		c.Deadline(time.Time{})
		_, _ = c.Receive(&link.Request{}, 0) // returns when the connection ends
	}
}

// candidate is a GPU that may be chosen.
type candidate struct {
	index int
	left  uint64 // memory that no VM was given
	vms   int    // that have it, or will
}

// roughly is the smallest difference that counts: the memory of a context or two makes no GPU
// better.
const roughly = 1 << 30

// choose returns the positions of the GPUs with the most memory left, in their order; among equal
// ones those with the fewest VMs.
func (l *loop) choose(r *link.Request) (*claim, []int, error) {
	p, err := l.wish(r)
	if err != nil {
		return nil, nil, err
	}
	c := &claim{name: r.Name, room: r.Room, exclusive: p.Exclusive == policy.On}
	var fit []candidate
	for i := range r.GPUs {
		if x, ok := l.candidate(c, &r.GPUs[i]); ok && x.left >= r.Room {
			x.index = i
			fit = append(fit, x)
		}
	}
	if len(fit) < r.Count {
		return nil, nil, fmt.Errorf("VM %s: %d of the host's %d GPUs have %s left that no VM was "+
			"given, and aren't another VM's alone: ask for fewer or less (paracuda probe tells "+
			"what each VM has)", r.Name, len(fit), len(r.GPUs), size.Format(r.Room))
	}
	slices.SortStableFunc(fit, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.left/roughly, a.left/roughly), cmp.Compare(a.vms, b.vms))
	})
	chosen := make([]int, r.Count)
	for k := range chosen {
		chosen[k] = fit[k].index
	}
	slices.Sort(chosen)
	for _, i := range chosen {
		c.gpus = append(c.gpus, r.GPUs[i].Name)
	}
	return c, chosen, nil
}

// wish is the policy of a VM that will join, after a check of its request.
func (l *loop) wish(r *link.Request) (p policy.Policy, err error) {
	if err := policy.CheckName(r.Name); err != nil {
		return p, err
	}
	if r.Count < 1 || r.Count > maxGPUs || len(r.GPUs) > maxGPUs {
		return p, fmt.Errorf("%d of %d GPUs: an arbiter chooses among %d at most", r.Count,
			len(r.GPUs), maxGPUs)
	}
	for i := range r.GPUs {
		if policy.CheckName(r.GPUs[i].Name) != nil {
			return p, fmt.Errorf("GPU %.70q: want a name as VMs have them", r.GPUs[i].Name)
		}
	}
	w := wishes{table: of(l.table, r.Name)}
	if err := w.asked.SetAll(r.Policy); err != nil {
		return p, err
	}
	return w.policy()
}

// candidate describes a GPU for a VM that claims some. ok is false if another VM has it alone, or
// would have to leave it.
func (l *loop) candidate(c *claim, g *link.GPU) (x candidate, ok bool) {
	x.left = cmp.Or(g.Free, g.Memory)
	take := func(bytes uint64) {
		x.vms++
		x.left -= min(x.left, bytes)
	}
	joined := map[string]bool{c.name: true} // it may be about to leave
	for _, m := range l.members {
		if m.name == c.name || !m.has(g.Name) {
			continue
		}
		if c.exclusive || m.policy.Exclusive == policy.On {
			return x, false
		}
		take(m.owed())
		joined[m.name] = true
	}
	for other := range l.claims {
		if joined[other.name] || !slices.Contains(other.gpus, g.Name) {
			continue
		}
		if c.exclusive || other.exclusive {
			return x, false
		}
		take(other.room)
	}
	return x, true
}

// owed is what a member was given of each of its GPUs and doesn't have yet. This is an estimate:
// members don't tell what they have by GPU.
func (m *member) owed() uint64 {
	given := max(m.room, m.policy.Memory, m.policy.Guarantee)
	if m.figures == nil || len(m.gpus) == 0 {
		return given
	}
	var has uint64
	for _, bytes := range m.figures.Memory {
		has += bytes
	}
	return given - min(given, has/uint64(len(m.gpus)))
}
