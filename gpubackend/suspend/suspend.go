// SPDX-License-Identifier: Apache-2.0

// Package suspend moves the device memory of a VM out to the host's and in again.
//
// A VM is suspended in steps, each of which all workers take before the next: their work ends; it
// is seen whether the host has room for their device memory; it is moved out. What fails is undone,
// and the VM runs on. To resume it is the reverse. Workers that end meanwhile need nothing more;
// those that start begin as ones whose work has ended (Suspension.Held).
//
// One change is made at a time, and the state says which may follow:
//
//	   ┌── failed ──┐                       ┌── failed ──┐
//	   ▼            │                       ▼            │
//	running ──► suspending ──► suspended ─────────► resuming
//	   ▲                                                 │
//	   └─────────────────────────────────────────────────┘
//
// # Who owns what
//
// A Suspension knows the VM by the functions of its Config, and its processes by interface Worker.
// It owns the state, and how much of which worker is out. The memory itself is in the workers.
//
// # Who may lie
//
// Workers: about how much they have, and whether they moved it. Sums of their numbers are bounded,
// and what they have is compared with what the host gives.
package suspend

import (
	"errors"
	"fmt"
	"sync"
)

// State is a VM's.
type State string

// The states.
const (
	Running    State = "running"
	Suspending State = "suspending"
	Suspended  State = "suspended"
	Resuming   State = "resuming"
)

// ErrState is the error for a change that doesn't suit the state.
var ErrState = errors.New("nothing is changed")

// States is the state of a VM. The zero value is one that runs.
type States struct {
	mu    sync.Mutex
	state State         // "" is running
	idle  chan struct{} // of the change that is under way: closed at its end
}

// State is the present one.
func (m *States) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now()
}

func (m *States) now() State {
	if m.state == "" {
		return Running
	}
	return m.state
}

// Begin begins to suspend or to resume, which End ends.
func (m *States) Begin(to State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := Running
	if to == Resuming {
		from = Suspended
	}
	if now := m.now(); now != from {
		return fmt.Errorf("the VM is %s: %w", now, ErrState)
	}
	m.state, m.idle = to, make(chan struct{})
	return nil
}

// strand makes a VM that runs one that is suspended.
func (m *States) strand() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now() == Running {
		m.state = Suspended
	}
}

// take makes a VM to which no change is made one that is suspended.
func (m *States) take() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.now(); now != Running && now != Suspended {
		return fmt.Errorf("the VM is %s: %w", now, ErrState)
	}
	m.state = Suspended
	return nil
}

// End ends a change: in what follows it, or, if it failed, in what was before.
func (m *States) End(done bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if suspends := m.state == Suspending; suspends == done {
		m.state = Suspended
	} else {
		m.state = Running
	}
	close(m.idle)
	m.idle = nil
}

// Idle is closed when no change is under way.
func (m *States) Idle() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.idle != nil {
		return m.idle
	}
	return closed
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
