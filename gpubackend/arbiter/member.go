// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"math"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// A bell may ring so often in a window; later rings are heard in the next one. A VM that waits for
// each of its kernels rings less often.
const (
	bellWindow = time.Millisecond
	bellRings  = 100
)

// member is a VM that has joined. The loop owns it.
type member struct {
	id      turns.ID
	name    string
	gpus    []link.GPU
	set     turns.GPUs // the same
	room    uint64     // that it was given on each of them; 0: not known
	wishes  wishes
	policy  policy.Policy // that the wishes result in
	page    *gate.Page
	gate    turns.Gate
	figures *link.Figures
	news    chan struct{} // has something when the terms have changed
	held    share         // by what was charged
	busy    share         // by what the workers measured

	residence residence
	ready     ready

	window turns.Time // of the bell; see bellRings
	rings  int
}

// state is what the gate's word should be.
func (m *member) state() gate.State {
	return gate.State{
		Open: m.gate.Open, Free: m.gate.Free, Attend: !m.gate.Free, Knock: m.gate.Knock,
		Soon: m.gate.Soon, InFlight: m.gate.InFlight,
	}
}

// turn is what the VM's workers are told of its turns.
func (m *member) turn() gate.Turn {
	return gate.Turn{Number: m.gate.Turn, Overruns: m.gate.Overruns}
}

// demand is the work of the VM's workers.
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

// tellLater lets the device process be told of its terms.
func (m *member) tellLater() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// tell describes the VM.
func (m *member) tell(s turns.Stats) link.VM {
	return link.VM{
		Name: m.name, GPUs: m.gpus, Policy: m.policy.Values(), Fixed: m.wishes.fixed(),
		Open: m.gate.Open, Alone: m.gate.Free, Share: m.fraction(),
		HeldNS: uint64(s.Held), WaitedNS: uint64(s.Waited), Turns: s.Turns, Overruns: s.Overruns,
		DebtNS: uint64(s.Debt), Figures: m.figures, Warm: m.ready.granted,
		Room: m.room,
	}
}

// told takes figures.
func (m *member) told(now turns.Time, f *link.Figures) {
	m.figures = f
	m.busy.look(now, time.Duration(min(f.Counters["gpu_time_ns"], math.MaxInt64)))
}

// fraction is the part of the last second for which the VM had its GPUs. A VM that is alone isn't
// charged: then its workers are believed.
func (m *member) fraction() float64 {
	if m.gate.Free {
		return max(m.held.is, m.busy.is)
	}
	return m.held.is
}

// shareWindow is the time over which a share is counted.
const shareWindow = 900 * time.Millisecond // figures come about once a second

// share is the part of the last window for which a VM had its GPUs.
type share struct {
	is   float64
	at   turns.Time
	held time.Duration // until then
}

// look begins a new window if the last one is over.
func (s *share) look(now turns.Time, held time.Duration) {
	gone := now - s.at
	if gone < shareWindow {
		return
	}
	if s.at != 0 {
		s.is = min(1, max(0, float64(held-s.held)/float64(gone)))
	}
	s.at, s.held = now, held
}
