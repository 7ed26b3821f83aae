// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// never is a deadline that doesn't come.
const never Time = math.MaxInt64

// maxGPUs is how many GPUs a set can name.
const maxGPUs = 64

// ID names a VM that has joined. IDs aren't used again.
type ID uint64

// Demand is what a VM's workers have to do, all of them together.
type Demand struct {
	Waiting  bool // commands in a ring
	InFlight bool // work on a GPU
}

func (d Demand) none() bool { return d == Demand{} }

// Gate is what a VM's workers may do.
type Gate struct {
	VM   ID
	Open bool
	// Free says that the VM is alone: its workers need not report what they do.
	Free bool
	// Knock says that the gate is open to a VM without work, since nobody else wants the GPUs or
	// it is likely to be back soon: its workers are to say when they begin.
	Knock bool
	// Soon says that the gate is about to open: its workers are to be awake.
	Soon bool
	// InFlight is how much predicted work they may have on the GPU.
	InFlight time.Duration
	// Turn is the number of the turn for which it is open, or else was open last, and Overruns how
	// many turns had work that didn't end in time.
	Turn, Overruns uint64
}

// Stats are sums since a VM joined.
type Stats struct {
	Held     time.Duration // GPU time that it was charged for
	Waited   time.Duration // time with work and a closed gate
	Turns    uint64
	Overruns uint64        // turns whose work didn't end in time
	Debt     time.Duration // GPU time by which it is ahead of the VM that is next
}

// Errors of Join.
var (
	ErrName = errors.New("a VM of this name has joined already")
	ErrGPUs = errors.New("a VM needs at least one GPU")
)

// Scheduler is the state of one host's GPUs and VMs.
type Scheduler struct {
	config Config
	vms    map[ID]*vm
	all    []*vm // the same
	names  map[string]ID
	left   debts
	last   ID
	// of each GPU: the least charged of the VMs that want it; never goes back
	clock [maxGPUs]virtual
	now   Time

	queue []*vm // scratch of next
}

// New returns a scheduler without VMs.
func New(c Config) *Scheduler {
	return &Scheduler{
		config: c.withDefaults(), vms: make(map[ID]*vm), names: make(map[string]ID),
		left: make(debts),
	}
}

// Join adds a VM. It has nothing to do at first.
func (s *Scheduler) Join(now Time, name string, gpus GPUs, p Policy) (ID, error) {
	if err := p.Check(); err != nil {
		return 0, fmt.Errorf("join VM %q: %w", name, err)
	}
	if gpus == 0 {
		return 0, fmt.Errorf("join VM %q: %w", name, ErrGPUs)
	}
	if _, ok := s.names[name]; ok {
		return 0, fmt.Errorf("join VM %q: %w", name, ErrName)
	}
	s.settle(now)
	s.last++
	v := &vm{id: s.last, name: name, gpus: gpus, policy: p.withDefaults(), auto: p.auto()}
	v.settled, v.filled, v.since = s.now, s.now, s.now
	v.charged = max(s.joins(v), s.left.take(name))
	v.tokens = v.bucket(&s.config)
	s.vms[v.id], s.names[name] = v, v.id
	s.all = append(s.all, v)
	s.step()
	return v.id, nil
}

// joins is the virtual time at which a VM joins: that of the last of those who wait, and a turn
// ahead of the first at most. Who leaves after each turn and joins by another name gains nothing.
func (s *Scheduler) joins(v *vm) virtual {
	first := s.time(v.gpus)
	last := first
	for _, o := range s.all {
		if o.gpus&v.gpus != 0 && o.asks() {
			last = max(last, o.charged)
		}
	}
	turn := v.policy.Turn
	if v.auto {
		turn = LongTurn
	}
	return min(last, first+v.weighted(turn))
}

// Leave removes a VM. Its work is taken to be over. One that isn't there is no error.
func (s *Scheduler) Leave(now Time, id ID) {
	v, ok := s.vms[id]
	if !ok {
		return
	}
	s.settle(now)
	s.left.keep(v.name, v.charged, s.time(v.gpus))
	delete(s.vms, id)
	s.all = slices.DeleteFunc(s.all, func(w *vm) bool { return w == v })
	delete(s.names, v.name)
	s.step()
}

// Set changes a VM's policy.
func (s *Scheduler) Set(now Time, id ID, p Policy) error {
	v, ok := s.vms[id]
	if !ok {
		return fmt.Errorf("set policy: no VM %d", id)
	}
	if err := p.Check(); err != nil {
		return fmt.Errorf("set policy of VM %q: %w", v.name, err)
	}
	s.settle(now)
	v.fill(s.now, &s.config)
	ahead := v.charged - s.time(v.gpus)
	ahead *= virtual(v.policy.Weight) / virtual(p.withDefaults().Weight) // the same GPU time
	v.policy, v.auto = p.withDefaults(), p.auto()
	v.charged = s.time(v.gpus) + ahead
	v.tokens = min(v.tokens, v.bucket(&s.config))
	s.step()
	return nil
}

// Report tells what a VM has to do from now on. It must be called after a gate was closed, and
// whenever it changes. A VM that isn't there is no error.
func (s *Scheduler) Report(now Time, id ID, d Demand) {
	v, ok := s.vms[id]
	if !ok {
		return
	}
	s.settle(now)
	if v.demand.none() && !d.none() {
		s.wake(v)
	}
	if d.none() && !v.demand.none() {
		v.empty = s.now
	}
	v.demand, v.unsure = d, false
	if d.none() {
		v.habit.begins(s.now, v.stats.Held)
	} else {
		v.habit.ends(s.now, v.stats.Held)
	}
	s.step()
}

// Tick is called at the deadline.
func (s *Scheduler) Tick(now Time) {
	s.settle(now)
	s.step()
}

// wake makes a VM that had nothing to do begin at the others' time.
func (s *Scheduler) wake(v *vm) {
	v.charged = max(v.charged, s.time(v.gpus)-v.weighted(v.policy.Turn))
}

// settle moves the time on and charges those who hold a GPU.
func (s *Scheduler) settle(now Time) {
	s.now = max(s.now, now)
	sharers := s.sharers()
	for _, v := range s.all {
		v.settle(s.now, sharers[v.first()], &s.config)
	}
	s.advance()
}

// sharers counts the VMs on each GPU: the one whose turn it is, and those that have overrun theirs.
// The driver gives each of them the same part of the GPU.
func (s *Scheduler) sharers() (n [maxGPUs]int) {
	for _, v := range s.all {
		if !v.phase.holds() && v.phase != overrun {
			continue
		}
		for g := v.gpus; g != 0; g &= g - 1 {
			n[bits.TrailingZeros64(uint64(g))]++
		}
	}
	return n
}

// advance moves each GPU's clock on.
func (s *Scheduler) advance() {
	var least [maxGPUs]virtual
	var wanted GPUs
	for _, v := range s.all {
		if v.phase == idle || v.phase == parked || (v.phase == waiting && !v.mayBegin()) {
			continue
		}
		for g := v.gpus; g != 0; g &= g - 1 {
			n := bits.TrailingZeros64(uint64(g))
			if wanted>>n&1 == 0 || v.charged < least[n] {
				least[n] = v.charged
			}
			wanted |= 1 << n
		}
	}
	for g := wanted; g != 0; g &= g - 1 {
		n := bits.TrailingZeros64(uint64(g))
		s.clock[n] = max(s.clock[n], least[n])
	}
}

// time is the virtual time of a set of GPUs.
func (s *Scheduler) time(gpus GPUs) virtual {
	var t virtual
	for ; gpus != 0; gpus &= gpus - 1 {
		t = max(t, s.clock[bits.TrailingZeros64(uint64(gpus))])
	}
	return t
}

// Stats are those of a VM.
func (s *Scheduler) Stats(now Time, id ID) (Stats, bool) {
	v, ok := s.vms[id]
	if !ok {
		return Stats{}, false
	}
	s.settle(now)
	return s.statsOf(v), true
}

// EachStats calls f with those of all VMs, in no order.
func (s *Scheduler) EachStats(now Time, f func(ID, Stats)) {
	s.settle(now)
	for _, v := range s.all {
		f(v.id, s.statsOf(v))
	}
}

func (s *Scheduler) statsOf(v *vm) Stats {
	st := v.stats
	st.Debt = time.Duration(max(0, v.charged-s.time(v.gpus)) * virtual(v.policy.Weight))
	return st
}
