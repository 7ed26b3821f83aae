// SPDX-License-Identifier: Apache-2.0

package turns

import "time"

// This file has what the owner is told: when to call again, and which gates to change.

// shared are the GPUs that several VMs have joined for.
func (s *Scheduler) shared() (several GPUs) {
	var once GPUs
	for _, v := range s.all {
		several |= once & v.gpus
		once |= v.gpus
	}
	return several
}

// Deadline is when Tick must be called, if nothing happens before; the largest Time is never.
func (s *Scheduler) Deadline() Time {
	deadline, w := never, s.wants()
	for _, v := range s.all {
		deadline = min(deadline, s.deadline(v, w))
	}
	return deadline
}

func (s *Scheduler) deadline(v *vm, w wants) Time {
	switch v.phase {
	case running:
		d := v.spentAt(s.now)
		if v.demand.none() {
			d = min(d, v.empty+s.config.Idle)
		}
		if (w.any|w.back|w.crowd)&v.gpus != 0 {
			d = min(d, v.until)
		}
		return d
	case awaited:
		d := v.spentAt(s.now)
		if s.awaits(v) {
			d = min(d, v.expected())
		}
		if s.keeps(v, w) {
			d = min(d, v.keptUntil(s.now))
		}
		return d
	case draining:
		if soon := v.since + soonFor; s.now < soon {
			return soon
		}
		return v.since + overrunTurns*v.policy.Turn
	case overrun:
		if v.asks() && !s.overdue(v) {
			return v.overdueAt()
		}
	case waiting:
		if !v.mayBegin() {
			at := v.beginsAt(s.now)
			if s.now < at-wakeFor {
				return at - wakeFor
			}
			return at
		}
	}
	return never
}

// Changes returns the gates that have changed since its last call, in no order.
func (s *Scheduler) Changes() []Gate {
	var changes []Gate
	bound, several, soon := s.inFlight(), s.shared(), s.soon()
	for _, v := range s.all {
		g := Gate{VM: v.id, Open: v.phase.open(), InFlight: bound}
		g.Soon = v == soon || s.soonAllowed(v)
		g.Free = g.Open && !v.limited() && v.gpus&several == 0
		g.Knock = (v.phase == parked || v.phase == awaited) && !g.Free
		g.Turn, g.Overruns = v.turn(), v.stats.Overruns
		if g != v.told {
			v.told = g
			changes = append(changes, g)
		}
	}
	return changes
}

// soonFor is for how long after the end of a turn the next VM should be awake, to begin at once.
// Most work ends within it; waking the next VM takes a part of it.
const soonFor = 300 * time.Microsecond

// soon is the VM that begins when work ends that probably won't last much longer, or nil.
func (s *Scheduler) soon() (next *vm) {
	var ending GPUs
	for _, v := range s.all {
		if v.phase == draining && !v.unsure && s.now < v.since+soonFor {
			ending |= v.gpus
		}
	}
	if ending == 0 {
		return nil
	}
	for _, v := range s.all {
		if v.asks() && v.gpus&ending != 0 && (next == nil || s.order(v, next) < 0) {
			next = v
		}
	}
	return next
}

// wakeFor is how long before its limit lets it begin a VM is woken: as long as waking may take,
// which would otherwise be charged.
const wakeFor = 150 * time.Microsecond

// soonAllowed says whether a VM begins as soon as its limit lets it, and that is about to be.
func (s *Scheduler) soonAllowed(v *vm) bool {
	return v.phase == waiting && !v.mayBegin() && s.now >= v.beginsAt(s.now)-wakeFor && !s.kept(v)
}

// inFlight is how much work a VM may have on a GPU.
func (s *Scheduler) inFlight() time.Duration {
	for _, v := range s.all {
		if v.policy.Class == Latency {
			return s.config.InFlightLatency
		}
	}
	return s.config.InFlight
}
