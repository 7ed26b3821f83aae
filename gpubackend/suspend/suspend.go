// SPDX-License-Identifier: Apache-2.0

// Package suspend moves the device memory of a VM out to the host's and in again.
//
// A VM is suspended in steps, each of which all workers finish before the next: their work ends;
// the host's room for their device memory is checked; it is moved out. If one fails, all is undone
// and the VM runs on. Resuming is the reverse. Workers that end meanwhile drop out; those that
// start begin as drained (Suspension.Held).
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
// It owns the state, and knows how much memory of which worker is out. The memory itself is in the
// workers.
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

// State is the state of a VM.
type State string

// The states.
const (
	Running    State = "running"
	Suspending State = "suspending"
	Suspended  State = "suspended"
	Resuming   State = "resuming"
)

// ErrState is the error for a change that the state doesn't allow.
var ErrState = errors.New("nothing is changed")

// States holds the state of a VM. The zero value is that of a VM that runs.
type States struct {
	mu    sync.Mutex
	state State         // "" is running
	idle  chan struct{} // closed at the end of the change under way
}

// State returns the present state.
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

// strand turns the state from running to suspended.
func (m *States) strand() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now() == Running {
		m.state = Suspended
	}
}

// take turns the state of a VM that runs, with no change under way, to suspended.
func (m *States) take() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.now(); now != Running && now != Suspended {
		return fmt.Errorf("the VM is %s: %w", now, ErrState)
	}
	m.state = Suspended
	return nil
}

// End ends a change: with the state that follows, or, if it failed, with the one before.
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
