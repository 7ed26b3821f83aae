// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// errEnded is the answer of an arbiter that is ending.
var errEnded = errors.New("the arbiter is ending")

// CheckName says what is wrong with the name of a VM.
func CheckName(name string) error {
	ok := name != "" && len(name) <= maxName
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("._-", r))
	}
	if !ok {
		return fmt.Errorf("VM name %.70q: want 1 to %d of a-z, A-Z, 0-9, '.', '_' and '-'", name, maxName)
	}
	return nil
}

// policy is that of a VM that asks for one.
func (a *Arbiter) policy(name string, asked map[string]string) (p turns.Policy, err error) {
	if own, ok := a.config.Policies[name]; ok {
		return own, nil
	}
	return p, setAll(&p, asked)
}

// setAll changes several settings, or none.
func setAll(p *turns.Policy, settings map[string]string) error {
	q := *p
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if err := q.Set(key, settings[key]); err != nil {
			return err
		}
	}
	*p = q
	return nil
}

// join lets a VM take part.
func (a *Arbiter) join(r *link.Request, fds []int) (*member, error) {
	page, err := openGate(fds)
	if err != nil {
		return nil, err
	}
	m := &member{name: r.Name, gpus: r.GPUs, page: page}
	if err = CheckName(r.Name); err == nil {
		m.policy, err = a.policy(r.Name, r.Policy)
	}
	if err == nil && !a.loop.do(func() { err = a.loop.add(m) }) {
		err = errEnded
	}
	if err != nil {
		page.Close()
		return nil, err
	}
	a.config.Log.WithField("vm", m.name).Info("VM joined")
	return m, nil
}

// add makes a member.
func (l *loop) add(m *member) error {
	if len(l.members) >= maxVMs {
		return fmt.Errorf("%d VMs have joined already", maxVMs)
	}
	gpus, err := l.names.set(m.gpus)
	if err != nil {
		return err
	}
	now := Now()
	if m.id, err = l.scheduler.Join(now, m.name, gpus, m.policy); err != nil {
		return fmt.Errorf("%w: give each VM its own --name", err)
	}
	l.members[m.id] = m
	m.page.Beat(now)
	l.apply()
	l.scheduler.Report(now, m.id, m.demand())
	l.apply()
	return nil
}

// leave ends a member's part. nil is none.
func (a *Arbiter) leave(m *member) {
	if m == nil {
		return
	}
	a.loop.do(func() {
		delete(a.loop.members, m.id)
		a.loop.scheduler.Leave(Now(), m.id)
		m.page.Set(gate.Unshared) // the last that this arbiter writes there
		m.page.Close()
		a.loop.apply()
	})
	a.config.Log.WithField("vm", m.name).Info("VM left")
}

// change changes a member's policy, unless the operator has set it.
func (a *Arbiter) change(m *member, settings map[string]string) {
	if _, own := a.config.Policies[m.name]; own {
		return
	}
	var err error
	a.loop.do(func() { err = a.loop.change(m, settings) })
	if err != nil {
		a.config.Log.WithField("vm", m.name).WithError(err).Warn("policy not changed")
	}
}

func (l *loop) change(m *member, settings map[string]string) error {
	p := m.policy
	if err := setAll(&p, settings); err != nil {
		return err
	}
	if err := l.scheduler.Set(Now(), m.id, p); err != nil {
		return err
	}
	m.policy = p
	l.apply()
	return nil
}

// set changes a VM's policy for an operator.
func (a *Arbiter) set(c *link.Conn, r *link.Request) error {
	uid, err := c.User()
	if err != nil {
		return err
	}
	if uid != 0 && int(uid) != os.Getuid() {
		return fmt.Errorf("only root and user %d may change policies", os.Getuid())
	}
	err = fmt.Errorf("no VM %.70q has joined: paracuda top lists them", r.Name)
	a.loop.do(func() {
		for _, m := range a.loop.members {
			if m.name == r.Name {
				err = a.loop.change(m, r.Policy)
			}
		}
	})
	return err
}
