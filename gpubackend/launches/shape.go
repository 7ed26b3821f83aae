// SPDX-License-Identifier: Apache-2.0

package launches

import "github.com/paracuda/paracuda/gpubackend"

const (
	// MaxBatch is how many launches go to the driver at once.
	MaxBatch = 128
	// minEnd is how many a batch has before it ends by what is launched.
	minEnd = 32
)

// Shape is what has to be the same in a replay.
type Shape struct {
	Function    gpubackend.Function
	Grid, Block [3]uint32
	Shared      uint32
	Bytes       int // of the parameters
}

// ShapeOf returns the shape of a launch.
func ShapeOf(l *gpubackend.Launch) Shape {
	return Shape{l.Function, l.Grid, l.Block, l.Shared, len(l.Parameters)}
}

// Values of the hash.
const (
	hashStart = 14695981039346656037
	hashPrime = 0x9e3779b97f4a7c15
)

func mix(h, v uint64) uint64 {
	h = (h ^ v) * hashPrime
	return h ^ h>>29
}

// hash is the hash of a launch's shape. It is never 0, which says in Launch.Hash that it isn't
// known.
func hash(l *gpubackend.Launch) uint64 {
	if l.Hash == 0 {
		// Products that don't wait for one another: the processor does them at once.
		h := uint64(l.Function) * hashPrime
		h += (uint64(l.Grid[0]) | uint64(l.Grid[1])<<32) * 0xbf58476d1ce4e5b9
		h += (uint64(l.Grid[2]) | uint64(l.Block[0])<<32) * 0x94d049bb133111eb
		h += (uint64(l.Block[1]) | uint64(l.Block[2])<<32) * 0xff51afd7ed558ccd
		h += (uint64(l.Shared) | uint64(len(l.Parameters))<<32) * 0xc4ceb9fe1a85ec53
		l.Hash = mix(h^h>>32, hashStart) | 1
	}
	return l.Hash
}

// Ends says whether a batch ends behind its last launch. That is decided by what is launched and
// not by when, so that a sequence that repeats is cut into the same batches each time; on average
// every 32nd launch ends one that is long enough.
func Ends(batch []gpubackend.Launch) bool {
	n := len(batch)
	return n >= MaxBatch || n >= minEnd && hash(&batch[n-1])>>59 == 0
}
