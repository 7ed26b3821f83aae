// SPDX-License-Identifier: Apache-2.0

package mover

// mark marks all pages that a job may have written to, even if it failed. It is called when nothing
// writes for the job any more, and before its worker is told.
func (s *server) mark(j *job) {
	if j.toDevice || s.dirty.Log() == nil {
		return
	}
	for i := range j.spans {
		p := &j.spans[i]
		s.dirty.Mark(p.region.key.guest+p.offset, p.bytes)
	}
}
