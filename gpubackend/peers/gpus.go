// SPDX-License-Identifier: Apache-2.0

package peers

import "github.com/paracuda/paracuda/gpubackend"

// GPUs counts how often GPUs were given the memory of others: access ends when it was taken back as
// often as it was given.
type GPUs struct {
	connect func(from, of int, reaches bool) gpubackend.Result
	counts  map[[2]int]int
}

// NewGPUs returns counts of 0. connect gives kernels of one GPU access to the memory of another,
// which may fail, or takes it back.
func NewGPUs(connect func(from, of int, reaches bool) gpubackend.Result) *GPUs {
	return &GPUs{connect: connect, counts: make(map[[2]int]int)}
}

// Connect gives access once more, or takes it back once. What wasn't given can't be taken back.
func (g *GPUs) Connect(from, of int, reaches bool) gpubackend.Result {
	pair := [2]int{from, of}
	switch n := g.counts[pair]; {
	case reaches && n == 0:
		if r := g.connect(from, of, true); r != gpubackend.Success {
			return r
		}
		g.counts[pair] = 1
	case reaches:
		g.counts[pair]++
	case n > 1:
		g.counts[pair]--
	case n == 1:
		delete(g.counts, pair)
		g.connect(from, of, false)
	}
	return gpubackend.Success
}
