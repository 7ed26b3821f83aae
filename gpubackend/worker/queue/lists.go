// SPDX-License-Identifier: Apache-2.0

package queue

import "github.com/paracuda/paracuda/gpubackend/wire"

// lists are lists of runs that are reused, so that a copy of pageable memory allocates none. They
// are guarded by Queue.mu.
type lists struct {
	raw   []byte       // a list as it arrives
	spare [][]wire.Run // of maps that were returned
}

// Bounds of what is kept: how many lists, and how long: like that of a part of a large copy.
const (
	maxSpare     = 16
	maxSpareRuns = 2048
)

// scratch is room for a list as it arrives, valid until the next one.
func (l *lists) scratch(bytes int) []byte {
	if cap(l.raw) < bytes {
		l.raw = make([]byte, bytes)
	}
	return l.raw[:bytes]
}

// get returns a list of n runs to be filled.
func (l *lists) get(n int) []wire.Run {
	if last := len(l.spare) - 1; last >= 0 && n <= maxSpareRuns {
		runs := l.spare[last]
		l.spare = l.spare[:last]
		if n <= cap(runs) {
			return runs[:n]
		}
	}
	return make([]wire.Run, n)
}

// put takes a list back.
func (l *lists) put(runs []wire.Run) {
	if cap(runs) <= maxSpareRuns && len(l.spare) < maxSpare {
		l.spare = append(l.spare, runs)
	}
}
