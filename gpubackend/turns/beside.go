// SPDX-License-Identifier: Apache-2.0

package turns

// This file has turns beside work that doesn't end.
//
// The driver gives each VM with work on a GPU the same part of it. So if VMs had their turns one
// after the other beside work that can't be taken off, all of them would share one part, and that
// work would have as much as all of them together. Therefore they have their turns at the same
// time. Virtual time still divides the GPU among them: a VM that gets a turn ahead of the others
// waits until they have caught up. Of the VMs that are ahead of the work that doesn't end, all but
// one wait.

// lasts says whether a VM has work on its GPUs that hasn't ended in time.
func (v *vm) lasts() bool { return v.phase == overrun || v.late }

// beside says whether a VM may have its turn at the same time as others. All its GPUs that others
// have or want must have lasting work that was charged more, and the VM must not be ahead of any
// other VM that could go on by more than a lead.
func (s *Scheduler) beside(v *vm, lead virtual) bool {
	var taken, paid GPUs
	least, urgent := v.charged, s.urgent(v)
	for _, o := range s.all {
		shared := o.gpus & v.gpus
		if o == v || shared == 0 {
			continue
		}
		wants := o.asks() || o.phase.holds()
		if wants && o.phase != draining && !urgent && s.urgent(o) {
			return false // that one mustn't wait
		}
		switch {
		case o.lasts() && o.charged >= v.charged:
			paid |= shared
		case o.lasts() && wants:
			taken |= shared
		case wants:
			taken |= shared
			if o.phase != draining {
				least = min(least, o.charged)
			}
		}
	}
	return s.overdue(v) || !v.lasts() && taken&^paid == 0 && v.charged <= least+lead
}

// goesOn says whether a turn whose time is over goes on, beside others or instead of them.
func (s *Scheduler) goesOn(v *vm, w wants) bool {
	return w.lasting&v.gpus != 0 && !v.lasts() && !s.urgent(v) &&
		s.beside(v, v.weighted(s.length(v)))
}

// yields says whether a VM's turn ends because the lasting work beside it has ended: of those that
// had turns at the same time, the first goes on.
func (s *Scheduler) yields(v *vm, w wants) bool {
	crowd := w.crowd &^ w.lasting & v.gpus
	if crowd == 0 {
		return false
	}
	for _, o := range s.all {
		if o == v || o.gpus&crowd == 0 || !o.phase.open() {
			continue
		}
		rests, others := v.phase == parked, o.phase == parked
		if rests && !others || rests == others && s.order(o, v) < 0 {
			return true
		}
	}
	return false
}
