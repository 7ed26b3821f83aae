// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
)

// Counter counts memory that others take.
type Counter interface {
	Charge(gpu int, bytes uint64) bool
	Uncharge(gpu int, bytes uint64)
}

// Charges is what objects of the driver count for, by their handles.
type Charges struct {
	counter  Counter
	contexts *contexts.Contexts
	known    map[uint64]charge
}

// charge is what an object counts for, and of whom.
type charge struct {
	gpu   int
	bytes uint64
	owner *contexts.Context
}

// NewCharges returns charges without objects.
func NewCharges(counter Counter, x *contexts.Contexts) *Charges {
	return &Charges{counter: counter, contexts: x, known: make(map[uint64]charge)}
}

// Make makes an object of the current context by create, if there is memory for it. ok is false if
// their size isn't known.
func (x *Charges) Make(
	bytes uint64, ok bool, create func() (uint64, gpubackend.Result),
) (uint64, gpubackend.Result) {
	if !x.contexts.Usable() {
		return 0, gpubackend.InvalidContext
	}
	if !ok {
		return 0, gpubackend.InvalidValue
	}
	c := x.contexts.Current()
	if !x.counter.Charge(c.GPU, bytes) {
		return 0, gpubackend.OutOfMemory
	}
	h, r := create()
	if r != gpubackend.Success {
		x.counter.Uncharge(c.GPU, bytes)
		return 0, r
	}
	x.known[h] = charge{c.GPU, bytes, c.Home()}
	return h, r
}

// Drop gives back what an object counts for.
func (x *Charges) Drop(h uint64) {
	if c, ok := x.known[h]; ok {
		x.counter.Uncharge(c.gpu, c.bytes)
		delete(x.known, h)
	}
}

// Ended takes the objects of a context that has ended out of the count.
func (x *Charges) Ended(c *contexts.Context) {
	for h, charge := range x.known {
		if charge.owner == c {
			x.Drop(h)
		}
	}
}
