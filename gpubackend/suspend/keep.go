// SPDX-License-Identifier: Apache-2.0

package suspend

import "maps"

// A copy of what was moved out may stay in the host's memory when the VM goes on: of each worker,
// all or nothing. suspend-keep bounds it for the VM. It is given up when the bound is lowered, when
// the VM goes on and the host has little memory left, and when its worker ends.

// reused is how much of the host's memory workers already have for what they are to move.
func (s *Suspension) reused(plans map[Worker]uint64) (bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, plan := range plans {
		bytes += min(plan, s.kept[w])
	}
	return bytes
}

// mayKeep says which workers may keep what they move out: as many as the bound has room for, first
// those that keep something.
func (s *Suspension) mayKeep(plans map[Worker]uint64) map[Worker]bool {
	may, left := map[Worker]bool{}, s.mostKept()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, had := range []bool{true, false} {
		for w, bytes := range plans {
			if (s.kept[w] > 0) == had && bytes <= left {
				may[w] = true
				left -= bytes
			}
		}
	}
	return may
}

func (s *Suspension) mostKept() uint64 {
	if s.Keep == nil {
		return 0
	}
	return s.Keep()
}

// noteKept notes how much a worker keeps.
func (s *Suspension) noteKept(w Worker, bytes uint64) {
	s.mu.Lock()
	if bytes > 0 {
		s.kept[w] = bytes
	} else {
		delete(s.kept, w)
	}
	s.mu.Unlock()
	if w.Ended() { // Forget may have been called already
		s.Forget(w)
	}
}

// keptIn is how much workers keep whose memory is in. The lock is held.
func (s *Suspension) keptIn() map[Worker]uint64 {
	in := maps.Clone(s.kept)
	for w := range s.out {
		delete(in, w)
	}
	return in
}

// Trim makes workers give up what they keep beyond the bound, after it was changed.
func (s *Suspension) Trim() { s.trim(s.mostKept()) }

// trim makes workers give up what they keep until all together keep at most that much.
func (s *Suspension) trim(most uint64) {
	var over []Worker
	s.mu.Lock()
	for w := range s.kept {
		if sum(s.kept) <= most {
			break
		}
		delete(s.kept, w)
		over = append(over, w)
	}
	s.mu.Unlock()
	for _, w := range over {
		w.Forget()
	}
}

// trimForHost does so for a VM that goes on, if the host has less free memory than what is kept.
func (s *Suspension) trimForHost() {
	s.mu.Lock()
	kept := sum(s.kept)
	s.mu.Unlock()
	if kept == 0 {
		return
	}
	if room, err := s.Room(); err != nil || room < kept {
		s.Log.WithField("bytes", kept).Info("the host has too little memory to keep a copy of " +
			"the VM's device memory: it is given up")
		s.trim(0)
	}
}
