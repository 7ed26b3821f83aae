// SPDX-License-Identifier: Apache-2.0

// Package peers keeps account of which contexts have access to the memory of which others, and of
// how often a GPU was given the memory of another. It gives no access itself: both are told what
// does.
//
// # Who owns what
//
// A device owns one of each, and uses them on its goroutine.
//
// # Who may lie
//
// Nobody: contexts and GPUs have been looked up, and whether access is allowed has been checked.
//
// Files: peers.go (contexts), gpus.go (GPUs).
package peers

import "github.com/paracuda/paracuda/gpubackend"

// Contexts are the pairs of contexts of which one has access to the other's memory. A C stands for
// a context.
type Contexts[C comparable] struct {
	connect func(from, of C, reaches bool) gpubackend.Result
	pairs   map[pair[C]]bool
}

type pair[C comparable] struct{ from, of C }

// NewContexts returns an account without pairs. connect gives one context access to the memory of
// another, which may fail, or takes it back.
func NewContexts[C comparable](
	connect func(from, of C, reaches bool) gpubackend.Result,
) *Contexts[C] {
	return &Contexts[C]{connect: connect, pairs: make(map[pair[C]]bool)}
}

// Has says whether a context has access to another's memory.
func (x *Contexts[C]) Has(from, of C) bool { return x.pairs[pair[C]{from, of}] }

// Give gives a context access that it doesn't have yet.
func (x *Contexts[C]) Give(from, of C) gpubackend.Result {
	p := pair[C]{from, of}
	if x.pairs[p] {
		return gpubackend.Success
	}
	r := x.connect(from, of, true)
	if r == gpubackend.Success {
		x.pairs[p] = true
	}
	return r
}

// Take takes back a context's access, if it has it.
func (x *Contexts[C]) Take(from, of C) {
	if p := (pair[C]{from, of}); x.pairs[p] {
		delete(x.pairs, p)
		x.connect(from, of, false)
	}
}

// End takes back the access of a context that ends, and the access of others to it.
func (x *Contexts[C]) End(c C) {
	for p := range x.pairs {
		if p.from == c || p.of == c {
			x.Take(p.from, p.of)
		}
	}
}

// Clear forgets all pairs, and takes nothing back: the device ends.
func (x *Contexts[C]) Clear() { clear(x.pairs) }
