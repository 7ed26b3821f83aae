// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"errors"
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// errEnded is the answer of an arbiter that is ending.
var errEnded = errors.New("the arbiter is ending: try again when there is a new one")

// A device process that is restarted may join before the arbiter has seen the old one end: a name
// that is taken is tried again for a moment.
const (
	nameTries = 20
	namePause = 20 * time.Millisecond
)

// join lets a VM take part.
func (a *Arbiter) join(r *link.Request, fds []int) (*member, error) {
	page, err := openGate(fds)
	if err != nil {
		return nil, err
	}
	m := &member{
		name: r.Name, gpus: r.GPUs, room: r.Room, page: page, news: make(chan struct{}, 1),
	}
	m.residence.news, m.ready.news = make(chan struct{}, 1), make(chan struct{}, 1)
	if r.Place != nil {
		m.residence.place = *r.Place
	}
	if err = policy.CheckName(r.Name); err == nil {
		err = m.wishes.asked.SetAll(r.Policy)
	}
	if err == nil {
		err = a.add(m)
	}
	if err != nil {
		page.Close()
		return nil, err
	}
	a.log.WithField("vm", m.name).Info("VM joined")
	return m, nil
}

func (a *Arbiter) add(m *member) error {
	err := errEnded
	for range nameTries {
		if !a.loop.do(func() { err = a.loop.add(m) }) || !errors.Is(err, turns.ErrName) {
			return err
		}
		time.Sleep(namePause)
	}
	return fmt.Errorf("%w: give each VM its own --name", err)
}

// add makes a member.
func (l *loop) add(m *member) error {
	if len(l.members) >= maxVMs {
		return fmt.Errorf("%d VMs have joined already, which is the most: end one", maxVMs)
	}
	l.names.keep(l.used())
	gpus, err := l.names.set(m.gpus)
	if err != nil {
		return err
	}
	m.wishes.table = of(l.table, m.name)
	if m.policy, err = m.wishes.policy(); err != nil {
		return err
	}
	if err := m.checkMode(m.policy.Mode); err != nil {
		return err
	}
	if err := l.checkGuarantees(map[*member]policy.Policy{m: m.policy}); err != nil {
		return err
	}
	m.set = gpus
	if err := l.checkExclusive(map[*member]policy.Policy{m: m.policy}); err != nil {
		return err
	}
	now := l.clock.now()
	if m.id, err = l.scheduler.Join(now, m.name, gpus, m.policy.Time); err != nil {
		return err
	}
	l.members[m.id] = m
	m.page.Beat(Now())
	l.apply()
	l.scheduler.Report(now, m.id, m.demand())
	l.apply()
	l.moveIn(now, m)
	return nil
}

// used are the GPUs of members.
func (l *loop) used() (gpus turns.GPUs) {
	for _, m := range l.members {
		gpus |= m.set
	}
	return gpus
}

// leave ends a member's part.
func (a *Arbiter) leave(m *member) {
	a.loop.do(func() {
		delete(a.loop.members, m.id)
		a.loop.scheduler.Leave(a.loop.clock.now(), m.id)
		a.loop.moveOut(a.loop.clock.now(), m)
		a.loop.grant(m)
		m.page.Set(gate.Unshared) // the last that this arbiter writes there
		m.page.Close()
		a.loop.apply()
	})
	a.log.WithField("vm", m.name).Info("VM left")
}
