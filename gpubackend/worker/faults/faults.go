// SPDX-License-Identifier: Apache-2.0

// Package faults tells the device process when a GPU's answer says that it is broken or gone. Each
// such answer of a GPU is told once.
//
// The worker's loop owns a Faults. Answers come from the GPU's driver; a guest can't make them up.
package faults

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Faults are those of one worker.
type Faults struct {
	gpu  func() int
	tell func(*handover.Message) error
	told map[handover.Fault]bool
}

// New returns the Faults of a worker, none yet. gpu is the current context's GPU.
func New(gpu func() int, tell func(*handover.Message) error) *Faults {
	return &Faults{gpu: gpu, tell: tell, told: map[handover.Fault]bool{}}
}

// Note looks at an answer.
func (x *Faults) Note(r gpubackend.Result) {
	if !r.OfGPU() {
		return
	}
	f := handover.Fault{GPU: x.gpu(), Result: int32(r)}
	if x.told[f] {
		return
	}
	x.told[f] = true
	_ = x.tell(&handover.Message{Kind: handover.KindFault, Fault: &f}) // without it, nobody hears
}
