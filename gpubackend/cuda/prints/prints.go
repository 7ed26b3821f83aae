// SPDX-License-Identifier: Apache-2.0

package prints

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
)

// Prints knows whether code that was loaded may print, and has what it printed.
type Prints struct {
	kinds   Kinds // of all images
	capture *Capture
	runs    func(major int) bool
	memory  *budget.Budget
	flush   func()
}

// New returns Prints of no code. runs says whether a GPU has a major compute capability, memory
// bounds what is unpacked to look into code, and flush has the C library write what it has buffered.
// Without a capture nothing is taken.
func New(capture *Capture, runs func(major int) bool, memory *budget.Budget, flush func()) *Prints {
	return &Prints{capture: capture, runs: runs, memory: memory, flush: flush}
}

// Note looks into an image that is loaded.
func (p *Prints) Note(image []byte) {
	if p.kinds != unknown {
		p.kinds.add(Find(image, p.runs, p.memory))
	}
}

// Forget is for tests whose code is known not to print.
func (p *Prints) Forget() { p.kinds = Kinds{} }

// Working says whether kernels may print while they work: then somebody has to synchronize with
// them, for that is when the driver writes.
func (p *Prints) Working() bool { return p.kinds.Working }

// Take returns what was printed since the last call. dead says that the context has an error, behind
// which the driver writes what a failed assertion says.
func (p *Prints) Take(dead bool) []gpubackend.Output {
	if p.capture == nil || !p.kinds.Working && !(dead && p.kinds.Failing) {
		return nil
	}
	p.flush()
	return p.capture.Take()
}
