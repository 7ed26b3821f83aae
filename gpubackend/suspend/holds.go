// SPDX-License-Identifier: Apache-2.0

package suspend

// Holds is how much of the host's memory a worker may have for device memory that was moved out, or
// is being moved; false: that isn't known before it has said so.
func (s *Suspension) Holds(w Worker) (bytes uint64, known bool) {
	state := s.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missing > 0 {
		return 0, false
	}
	bytes = max(s.out[w], s.kept[w])
	if state == Suspending || state == Resuming {
		bytes = max(bytes, s.drained[w])
	}
	return bytes, true
}
