// SPDX-License-Identifier: Apache-2.0

package mover

// mark says which pages a job has written to, all of which it may have, whatever became of it. It
// is called when nothing writes for the job any more, and before its worker learns that.
func (s *server) mark(j *job) {
	if j.toDevice || s.dirty.Log() == nil {
		return
	}
	for i := range j.spans {
		p := &j.spans[i]
		s.dirty.Mark(p.region.key.guest+p.offset, p.bytes)
	}
}
