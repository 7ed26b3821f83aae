// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// A bell may ring so often in a window; what comes after that is heard in the next one. It is more
// than a VM that waits for each of its kernels rings.
const (
	bellWindow = time.Millisecond
	bellRings  = 100
)

// member is a VM that has joined. The loop owns it.
type member struct {
	id      turns.ID
	name    string
	gpus    []string
	policy  turns.Policy
	page    *gate.Page
	gate    turns.Gate
	figures *link.Figure

	window turns.Time // of the bell
	rings  int
}

// state is what the gate's word is to say.
func (m *member) state() gate.State {
	return gate.State{
		Open: m.gate.Open, Free: m.gate.Free, Attend: !m.gate.Free, InFlight: m.gate.InFlight,
	}
}

// demand is what the VM's workers have to do.
func (m *member) demand() turns.Demand {
	waiting, inFlight := m.page.Demand()
	return turns.Demand{Waiting: waiting, InFlight: inFlight}
}

// deaf says whether the bell has rung too often, and until when it isn't heard.
func (m *member) deaf(now turns.Time) (until turns.Time, deaf bool) {
	return m.window + bellWindow, m.rings >= bellRings && now < m.window+bellWindow
}

// heard counts a ring.
func (m *member) heard(now turns.Time) {
	if now >= m.window+bellWindow {
		m.window, m.rings = now, 0
	}
	m.rings++
}

// tell describes the VM.
func (m *member) tell(s turns.Stats) link.VM {
	return link.VM{
		Name: m.name, GPUs: m.gpus, Policy: m.policy.Values(), Open: m.gate.Open, Alone: m.gate.Free,
		HeldNS: uint64(s.Held), WaitedNS: uint64(s.Waited), Turns: s.Turns, Overruns: s.Overruns,
		DebtNS: uint64(s.Debt), Figures: m.figures,
	}
}
