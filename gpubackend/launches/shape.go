// SPDX-License-Identifier: Apache-2.0

package launches

import "github.com/paracuda/paracuda/gpubackend"

const (
	// MaxBatch is how many launches go to the driver at once.
	MaxBatch = 128
	// minEnd is how many launches a batch has at least before Ends ends it.
	minEnd = 32
)

// Shape is what must be the same in a replay.
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

// hash is the hash of a launch's shape. It is never 0: in Launch.Hash, 0 says that it isn't known.
func hash(l *gpubackend.Launch) uint64 {
	if l.Hash == 0 {
		// These products don't depend on one another: the processor computes them in parallel.
		h := uint64(l.Function) * hashPrime
		h += (uint64(l.Grid[0]) | uint64(l.Grid[1])<<32) * 0xbf58476d1ce4e5b9
		h += (uint64(l.Grid[2]) | uint64(l.Block[0])<<32) * 0x94d049bb133111eb
		h += (uint64(l.Block[1]) | uint64(l.Block[2])<<32) * 0xff51afd7ed558ccd
		h += (uint64(l.Shared) | uint64(len(l.Parameters))<<32) * 0xc4ceb9fe1a85ec53
		l.Hash = mix(h^h>>32, hashStart) | 1
	}
	return l.Hash
}

// Ends says whether a batch ends after its last launch. Only what is launched decides, so that a
// sequence that repeats is cut into the same batches each time. On average every 32nd launch ends a
// batch that is long enough.
func Ends(batch []gpubackend.Launch) bool {
	n := len(batch)
	return n >= MaxBatch || n >= minEnd && hash(&batch[n-1])>>59 == 0
}
