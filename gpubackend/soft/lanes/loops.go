// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"maps"
	"math"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

//go:generate go run ./loopgen

// best are the loops in Go, or better ones that the processor allows.
var best = goLoops

// Loop is the loop of an operation, nil if it has none. Its key is the operation's name in PTX with
// the types that count for it, such as "mul.wide.u32". Registers must have the widths of these.
func Loop(key string) Func { return best[key] }

// Loops returns the keys of all operations that have a loop.
func Loops() []string { return slices.Sorted(maps.Keys(goLoops)) }

var (
	canonicalNaN32 = math.Float32frombits(scalar.NaN32)
	canonicalNaN64 = math.Float64frombits(scalar.NaN64)
)

func canon32(x float32) float32 {
	if x != x {
		return canonicalNaN32
	}
	return x
}

func flushF32(x float32) float32 {
	return math.Float32frombits(uint32(scalar.Flush32(uint64(math.Float32bits(x)))))
}

func canon64(x float64) float64 {
	if x != x {
		return canonicalNaN64
	}
	return x
}

// carry64 is the result r of an operation on operands. If one of these is a NaN, it is the result.
func carry64(r float64, operands ...float64) float64 {
	if r == r {
		return r
	}
	for _, x := range operands {
		if x != x {
			return math.Float64frombits(math.Float64bits(x) | scalar.Quiet64)
		}
	}
	return math.Float64frombits(scalar.Invalid64)
}

func neg32(x float32) float32 { return canon32(-x) }
func abs32(x float32) float32 {
	return canon32(math.Float32frombits(math.Float32bits(x) &^ (1 << 31)))
}
func abs64(x float64) float64 { return math.Abs(x) }

func neg64(x float64) float64 {
	if x != x {
		return x
	}
	return -x
}

func fmaLane64(x, y, z float64) float64 { return math.FMA(x, y, z) }

func min32(x, y float32) float32 {
	return ordered32(x, y, x < y || x == y && math.Signbit(float64(x)))
}
func max32(x, y float32) float32 {
	return ordered32(x, y, x > y || x == y && !math.Signbit(float64(x)))
}
func min64(x, y float64) float64 { return ordered64(x, y, x < y || x == y && math.Signbit(x)) }
func max64(x, y float64) float64 { return ordered64(x, y, x > y || x == y && !math.Signbit(x)) }

func ordered32(x, y float32, first bool) float32 {
	if first || y != y {
		return canon32(x)
	}
	return canon32(y)
}

func ordered64(x, y float64, first bool) float64 {
	if first || y != y {
		return canon64(x)
	}
	return canon64(y)
}

// selectOf is selp.
func selectOf[T any](which bool, x, y T) T {
	if which {
		return x
	}
	return y
}

// truncS32 is cvt.rzi.s32.f32.
func truncS32(x float32) int32 {
	switch {
	case x != x:
		return 0
	case x >= 0x1p31:
		return math.MaxInt32
	case x <= -0x1p31:
		return math.MinInt32
	}
	return int32(x)
}

func divU32(x, y uint32) uint32 {
	if y == 0 {
		return math.MaxUint32
	}
	return x / y
}

func remU32(x, y uint32) uint32 {
	if y == 0 {
		return x
	}
	return x % y
}

func divS32(x, y int32) int32 {
	if y == 0 {
		return -1
	}
	return x / y
}

func remS32(x, y int32) int32 {
	if y == 0 {
		return x
	}
	return x % y
}
