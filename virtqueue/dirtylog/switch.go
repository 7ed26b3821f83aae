// SPDX-License-Identifier: Apache-2.0

package dirtylog

import "sync/atomic"

// Switch is where writers find the log, if there is one. The zero value has none.
type Switch struct{ log atomic.Pointer[Log] }

// Set changes the log, nil for none, and returns the one before. Writes that have begun may still
// be marked there; its Close waits for them.
func (s *Switch) Set(l *Log) (before *Log) { return s.log.Swap(l) }

// Log returns the log, nil if there is none.
func (s *Switch) Log() *Log { return s.log.Load() }

// Mark says that a range of guest-physical addresses was written to. It is called after the write.
func (s *Switch) Mark(gpa, n uint64) {
	if l := s.log.Load(); l != nil {
		l.Mark(gpa, n)
	}
}
