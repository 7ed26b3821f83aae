// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// overrunTurns is how many turns a VM's work may take to end before it loses the GPU, and
// overdueTurns how many it then waits at most for a turn, whatever it was charged.
const (
	overrunTurns = 2
	overdueTurns = 4
)

// step brings the phases up to date. Everything must be settled.
func (s *Scheduler) step() {
	for _, v := range s.all {
		s.ended(v)
	}
	w := s.wants()
	for _, v := range s.all {
		s.closing(v, w)
	}
	s.next(w)
	s.park()
}

// wants are the GPUs for which VMs wait, and those that several VMs can have at a time.
type wants struct {
	any     GPUs
	urgent  GPUs // by a VM of the latency class that isn't too far ahead
	back    GPUs // by a VM whose work doesn't have to end before it goes on
	lasting GPUs // with work that has not ended in time
	crowd   GPUs // to which several gates are open
}

func (s *Scheduler) wants() (w wants) {
	var open GPUs
	for _, v := range s.all {
		if v.lasts() {
			w.lasting |= v.gpus
		}
		if v.phase.open() {
			w.crowd |= open & v.gpus
			open |= v.gpus
		}
		if v.mayResume() {
			w.back |= v.gpus
		}
		if !v.asks() {
			continue
		}
		w.any |= v.gpus
		if s.urgent(v) {
			w.urgent |= v.gpus
		}
	}
	return w
}

// ended updates the phase of a VM whose work has begun or ended.
func (s *Scheduler) ended(v *vm) {
	if !v.demand.InFlight {
		v.late = false
	}
	switch v.phase {
	case idle, waiting:
		switch {
		case v.demand.InFlight && s.held()&v.gpus != 0: // from when it was alone
			v.enter(overrun, s.now)
		case v.demand.InFlight:
			v.enter(draining, s.now)
		case v.demand.Waiting && v.phase == idle:
			v.enter(waiting, s.now)
		case !v.demand.Waiting && v.phase == waiting:
			v.enter(idle, s.now)
		}
	case parked:
		if !v.demand.none() {
			s.begin(v, never)
		}
	case awaited: // its turn goes on
		if !v.demand.none() {
			v.enter(running, s.now)
		}
	case draining, overrun:
		if !v.demand.InFlight {
			v.enter(idle, s.now)
			s.ended(v)
		} else if v.phase == draining && s.now >= v.since+overrunTurns*v.policy.Turn {
			v.late = true
			v.enter(overrun, s.now)
			v.stats.Overruns++
		}
	}
}

// closing ends a VM's turn if it is over, or lets it have another one before its work has ended.
func (s *Scheduler) closing(v *vm, w wants) {
	switch {
	case v.phase == parked:
		if (w.any|w.back)&v.gpus != 0 || s.yields(v, w) {
			s.end(v)
		}
		return
	case v.phase == draining:
		if v.mayResume() && w.any&v.gpus == 0 && !s.kept(v) {
			s.begin(v, never)
		}
		return
	case v.phase != running && v.phase != awaited:
		return
	case !v.allowed():
	case s.yields(v, w):
	case v.phase == awaited || v.demand.none() && s.now >= v.empty+s.config.Idle:
		if (w.any|w.back)&v.gpus == 0 {
			v.enter(parked, s.now)
			return
		}
		if s.awaits(v) || s.keeps(v, w) {
			v.enter(awaited, s.now)
			return
		}
	case (w.any|w.back|w.crowd)&v.gpus == 0:
		return
	case s.now >= v.until:
		if s.goesOn(v, w) || s.again(v, w) {
			v.until = s.now + s.length(v)
			return
		}
	case w.urgent&v.gpus != 0 && !s.urgent(v):
	default:
		return
	}
	s.end(v)
}

// kept says whether another VM keeps a VM from its GPUs.
func (s *Scheduler) kept(v *vm) bool {
	for _, o := range s.all {
		if o != v && o.gpus&v.gpus != 0 && (o.phase.holds() || o.phase == parked) {
			return true
		}
	}
	return false
}

// end closes a VM's gate. What came through is only known once the owner has closed it: until it
// reports again, work counts as in flight. Work that hasn't ended in time before isn't waited for
// again.
func (s *Scheduler) end(v *vm) {
	v.demand.InFlight, v.unsure = true, true
	if v.late {
		v.enter(overrun, s.now)
		return
	}
	v.enter(draining, s.now)
}

// held are the GPUs of VMs whose turn it is.
func (s *Scheduler) held() (gpus GPUs) {
	for _, v := range s.all {
		if v.phase.holds() {
			gpus |= v.gpus
		}
	}
	return gpus
}

// urgent says whether a VM is of the latency class and on none of its GPUs too far ahead of its
// share.
func (s *Scheduler) urgent(v *vm) bool {
	if v.policy.Class != Latency {
		return false
	}
	ahead := v.charged - v.weighted(time.Duration(s.config.Burst)*v.policy.Turn)
	for g := v.gpus; g != 0; g &= g - 1 {
		if ahead > s.clock[bits.TrailingZeros64(uint64(g))] {
			return false
		}
	}
	return true
}

// next gives turns to waiting VMs, in their order, as far as there are GPUs.
func (s *Scheduler) next(w wants) {
	var busy, kept, urgent, asked GPUs // urgent: kept for VMs that mustn't wait
	var firm, pressing GPUs            // firm: busy, and not only with work that ends
	// when all GPUs are free that are kept for a VM with several
	keptUntil := s.now
	s.queue = s.queue[:0]
	for _, v := range s.all {
		if v.phase.holds() {
			busy |= v.gpus
			if v.phase != draining {
				firm |= v.gpus
			}
			keptUntil = max(keptUntil, v.until)
		}
		if v.asks() {
			asked |= v.gpus
			if s.urgent(v) {
				pressing |= v.gpus
			}
		}
		if v.asks() || v.phase == idle && s.awaits(v) {
			s.queue = append(s.queue, v)
		}
	}
	if asked&^busy == 0 && pressing&^firm == 0 && asked&w.lasting == 0 {
		return
	}
	slices.SortFunc(s.queue, s.order)
	begin := func(v *vm, until Time) {
		s.begin(v, until)
		busy |= v.gpus
		firm |= v.gpus
	}
	for _, v := range s.queue {
		switch {
		case v.phase == idle:
			if v.gpus&(busy|kept) == 0 {
				begin(v, never)
				v.enter(awaited, s.now)
			}
		case v.gpus&firm == 0 && s.urgent(v):
			// Beside work that ends: the driver gives the VM a slice before that work is over.
			begin(v, never)
		case v.gpus&busy&^w.lasting == 0 && v.gpus&busy != 0 && s.beside(v, 0):
			begin(v, s.untilFor(v))
		case v.gpus&busy != 0:
			if kept |= v.gpus; s.urgent(v) {
				urgent |= v.gpus
			}
		case v.gpus&kept == 0:
			begin(v, s.untilFor(v))
		case v.gpus&urgent != 0:
		case keptUntil-s.now >= MinTurn: // meanwhile
			begin(v, keptUntil)
		}
	}
}

// overdue says whether a VM has overrun its turn for so long that it gets another one, so that work
// gets to the GPU for which the VM's work may wait.
func (s *Scheduler) overdue(v *vm) bool {
	return v.phase == overrun && s.now >= v.overdueAt()
}

// overdueAt is from when on that holds for a VM that has overrun its turn.
func (v *vm) overdueAt() Time { return v.since + overdueTurns*v.policy.Turn }

// untilFor is when a turn that begins now must end.
func (s *Scheduler) untilFor(v *vm) Time {
	if s.overdue(v) {
		return s.now + MinTurn // to get more work to the GPU, which others use at the same time
	}
	return never
}

// order compares which VM comes first.
func (s *Scheduler) order(a, b *vm) int {
	if x, y := s.urgent(a), s.urgent(b); x != y {
		if x {
			return -1
		}
		return 1
	}
	if x, y := s.overdue(a), s.overdue(b); x != y {
		if x {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.charged, b.charged), cmp.Compare(a.since, b.since),
		cmp.Compare(a.name, b.name))
}

// begin gives a VM its turn, which ends at a given time.
func (s *Scheduler) begin(v *vm, until Time) {
	s.wake(v)
	v.enter(running, s.now)
	v.until = min(until, s.now+s.length(v))
	v.stats.Turns++
}

// length is the length of a VM's turn that begins now. It is no more than DefaultTurn for a VM with
// a limit on its time, which saves up only that, and while VMs of the latency class that are ahead
// of their share wait.
func (s *Scheduler) length(v *vm) time.Duration {
	if !v.auto || v.limited() || v.policy.Class == Latency {
		return v.policy.Turn
	}
	want := 1
	for _, w := range s.all {
		switch {
		case w == v || w.gpus&v.gpus == 0:
		case w.policy.Class == Latency:
			return v.policy.Turn
		case w.phase != idle && w.phase != parked:
			want++
		}
	}
	return min(max(Round/time.Duration(want), DefaultTurn), LongTurn)
}

// park leaves the gate open for a VM that is idle while nobody has or wants its GPUs.
func (s *Scheduler) park() {
	var used GPUs
	for _, v := range s.all {
		if v.phase != idle && v.phase != overrun || v.asks() {
			used |= v.gpus
		}
	}
	for _, v := range s.all {
		if v.phase == idle && v.mayBegin() && v.gpus&used == 0 {
			v.enter(parked, s.now)
			used |= v.gpus
		}
	}
}
