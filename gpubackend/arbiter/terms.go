// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/residency"
	"github.com/paracuda/paracuda/gpubackend/size"
)

// wishes are what a VM's policy is made of, the strongest last.
type wishes struct {
	asked policy.Policy     // by the device process
	table *policy.Policy    // by the configuration; nil: it doesn't name the VM
	live  map[string]string // by an operator, since then
}

// policy is what holds. Where the configuration decides, nothing that a device process asks for
// takes time or memory from other VMs.
func (w *wishes) policy() (p policy.Policy, err error) {
	p = w.asked
	if w.table != nil {
		p = *w.table
		p.Memory = cmp.Or(p.Memory, w.asked.Memory)
		p.Processes = cmp.Or(p.Processes, w.asked.Processes)
		p.Mode = cmp.Or(p.Mode, w.asked.Mode)
		p.Exclusive = cmp.Or(p.Exclusive, w.asked.Exclusive)
	}
	if err := p.SetAll(w.live); err != nil {
		return p, err
	}
	return p, p.Check()
}

// bounds are what the operator has the device process keep.
func (w *wishes) bounds() map[string]string {
	b := map[string]string{}
	if w.table != nil {
		b = w.table.Bounds()
	}
	for key, value := range w.live {
		if !policy.IsTime(key) {
			b[key] = value
		}
	}
	return b
}

// fixed says whether the configuration has set the policy.
func (w *wishes) fixed() bool { return w.table != nil }

// of is what the configuration says of a VM.
func of(t *policy.Table, name string) *policy.Policy {
	if p, ok := t.Of(name); ok {
		return &p
	}
	return nil
}

// terms are those of a member.
func (a *Arbiter) terms(m *member) (t *link.Terms) {
	a.loop.do(func() {
		t = &link.Terms{
			Policy: m.policy.Values(), Bounds: m.wishes.bounds(), Fixed: m.wishes.fixed(),
		}
	})
	return t
}

// change gives members other wishes, all or none.
func (l *loop) change(wanted map[*member]wishes) error {
	policies := map[*member]policy.Policy{}
	for m, w := range wanted {
		p, err := w.policy()
		if err != nil {
			return fmt.Errorf("VM %s: %w", m.name, err)
		}
		if err := m.checkMode(p.Mode); err != nil {
			return fmt.Errorf("VM %s: %w", m.name, err)
		}
		policies[m] = p
	}
	if err := l.checkGuarantees(policies); err != nil {
		return err
	}
	if err := l.checkExclusive(policies); err != nil {
		return err
	}
	for m, p := range policies {
		if err := l.scheduler.Set(l.clock.now(), m.id, p.Time); err != nil {
			return err // not after Check
		}
		m.wishes, m.policy = wanted[m], p
		m.tellLater()
		if s := l.memories.of(m); s != nil {
			s.Set(l.clock.now(), residency.ID(m.id), m.stays())
		}
	}
	l.carry()
	l.apply()
	return nil
}

// checkMode refuses what can't be done with several GPUs.
func (m *member) checkMode(mode string) error {
	if n := len(m.gpus); mode == policy.ModeSwap && n > 1 {
		return fmt.Errorf("memory-mode=swap: it has %d GPUs, and only the memory of a VM with one "+
			"moves: leave it out, or give it one GPU", n)
	}
	return nil
}

// checkGuarantees says whether GPUs have what all members are guaranteed, if some had others.
func (l *loop) checkGuarantees(changed map[*member]policy.Policy) error {
	sums := map[string]uint64{}
	add := func(m *member, p policy.Policy) {
		for _, g := range m.gpus {
			sums[g.Name] += min(p.Guarantee, 1<<62/maxVMs)
		}
	}
	for _, m := range l.members {
		if _, ok := changed[m]; !ok {
			add(m, m.policy)
		}
	}
	for m, p := range changed {
		add(m, p)
	}
	for m := range changed {
		for _, g := range m.gpus {
			if memory := l.memory(g.Name, m); memory != 0 && sums[g.Name] > memory {
				return fmt.Errorf("memory-guarantee: those of the VMs of GPU %s add up to %s, "+
					"and it has %s: lower some",
					g.Name, size.Format(sums[g.Name]), size.Format(memory))
			}
		}
	}
	return nil
}

// SetTable makes another configuration hold, and ends what operators have set since the last one. A
// table that doesn't suit the VMs that there are changes nothing.
func (a *Arbiter) SetTable(t *policy.Table) (err error) {
	defer a.list.forget()
	if !a.loop.do(func() { err = a.loop.setTable(t) }) {
		return errEnded
	}
	return err
}

func (l *loop) setTable(t *policy.Table) error {
	wanted := map[*member]wishes{}
	for _, m := range l.members {
		wanted[m] = wishes{asked: m.wishes.asked, table: of(t, m.name)}
	}
	if err := l.change(wanted); err != nil {
		return err
	}
	l.table = t
	return nil
}

// change is a device process's wish for another policy.
func (a *Arbiter) change(m *member, settings map[string]string) *link.Answer {
	answer := &link.Answer{Asked: true}
	err := error(errEnded)
	a.loop.do(func() { err = a.loop.ask(m, settings) })
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	answer.Terms = a.terms(m)
	return answer
}

func (l *loop) ask(m *member, settings map[string]string) error {
	w := m.wishes
	for key := range settings {
		decided := policy.IsTime(key) || key == policy.Guarantee
		if w.fixed() && decided && settings[key] != w.asked.Values()[key] {
			return fmt.Errorf("%s: the arbiter's configuration sets it for VM %s: "+
				"change it there, or with paracuda set --vm %[2]s", key, m.name)
		}
	}
	w.asked = policy.Policy{}
	if err := w.asked.SetAll(settings); err != nil {
		return err
	}
	return l.change(map[*member]wishes{m: w})
}

// set changes a VM's policy for an operator.
func (a *Arbiter) set(c *link.Conn, r *link.Request) error {
	user, err := c.User()
	if err != nil {
		return err
	}
	if !trusted(user) {
		return fmt.Errorf("only root and the arbiter's own user may change policies: "+
			"this is user %d", user)
	}
	defer a.list.forget()
	err = errEnded
	a.loop.do(func() { err = a.loop.setLive(r.Name, r.Policy) })
	return err
}

func (l *loop) setLive(name string, settings map[string]string) error {
	for _, m := range l.members {
		if m.name == name {
			w := m.wishes
			if w.live = maps.Clone(w.live); w.live == nil {
				w.live = map[string]string{}
			}
			maps.Copy(w.live, settings)
			return l.change(map[*member]wishes{m: w})
		}
	}
	return fmt.Errorf("no VM %.70q has joined: paracuda top lists them", name)
}
