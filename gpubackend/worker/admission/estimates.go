// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math/bits"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
)

// Kind is a kind of submissions that take about equally long.
type Kind struct {
	Op    gpubackend.Op
	ID    uint64 // of the function or the graph
	Shape uint32 // of a launch
}

// ShapeOf is the class of a launch's size.
func ShapeOf(grid, block [3]uint32) uint32 {
	return magnitude(grid)<<16 | magnitude(block)
}

// magnitude is the power of two below a size.
func magnitude(size [3]uint32) uint32 {
	n := 0
	for _, x := range size {
		n += bits.Len32(x)
	}
	return uint32(n)
}

const (
	// firstGuess is the estimate for a submission of an unknown kind.
	firstGuess = 200 * time.Microsecond
	// minTook and maxTook bound what is believed.
	minTook = time.Microsecond
	maxTook = 10 * time.Second
	// learnPart is which part of a difference is learnt at a time.
	learnPart = 4
	// maxEstimates is how many kinds are remembered.
	maxEstimates = 8192
)

// estimate is how long a submission takes, as far as is known.
type estimate struct {
	took time.Duration
	seen bool
}

// estimates are those of all kinds.
type estimates struct {
	known map[Kind]*estimate
	last  Kind // that was asked for, and its estimate
	hit   *estimate
}

// of returns the estimate of a kind.
func (s *estimates) of(k Kind) *estimate {
	if s.hit != nil && s.last == k {
		return s.hit
	}
	e := s.known[k]
	if e == nil {
		if s.known == nil || len(s.known) >= maxEstimates {
			s.known = map[Kind]*estimate{}
		}
		e = &estimate{took: firstGuess}
		s.known[k] = e
	}
	s.last, s.hit = k, e
	return e
}

// learn notes how long a submission took this time.
func (e *estimate) learn(took time.Duration) {
	if e.seen {
		took = e.took + (took-e.took)/learnPart
	}
	e.took, e.seen = min(max(took, minTook), maxTook), true
}
