// SPDX-License-Identifier: Apache-2.0

package output

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
)

// Output knows whether code that was loaded may print, and has what it printed.
type Output struct {
	kinds   Kinds // of all images
	capture *Redirect
	runs    func(major int) bool
	memory  *budget.Budget
	flush   func()
}

// New returns an Output for which no code was loaded yet. runs says whether a GPU has a major
// compute capability, memory bounds what is unpacked in a search, and flush makes the C library
// write out its buffers. Without a capture nothing is taken.
func New(
	capture *Redirect, runs func(major int) bool, memory *budget.Budget, flush func(),
) *Output {
	return &Output{capture: capture, runs: runs, memory: memory, flush: flush}
}

// Note searches an image that is loaded.
func (o *Output) Note(image []byte) {
	if o.kinds != unknown {
		o.kinds.add(Find(image, o.runs, o.memory))
	}
}

// Working says whether kernels may print while they work: then somebody must synchronize, for that
// is when the driver writes.
func (o *Output) Working() bool { return o.kinds.Working }

// Take returns what was printed since the last call. dead says that the context has failed; that is
// when the driver writes what a failed assertion says.
func (o *Output) Take(dead bool) []gpubackend.Output {
	if o.capture == nil || !o.kinds.Working && !(dead && o.kinds.Failing) {
		return nil
	}
	o.flush()
	return o.capture.Take()
}
