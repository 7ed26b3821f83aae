// SPDX-License-Identifier: Apache-2.0

package loadstore

import (
	"golang.org/x/sys/cpu"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
)

// useAVX is set where the processor runs the assembly.
var useAVX = cpu.X86.HasAVX2

// consecutive32AVX and consecutive64AVX tell whether the elements are n apart.
//
//go:noescape
func consecutive32AVX(addr *[lanes.Count]uint32, n uint32) bool

//go:noescape
func consecutive64AVX(addr *[lanes.Count]uint64, n uint64) bool

// gather32AVX loads the words at base + addr + off if all offsets are aligned
// and at most last, and else does nothing and reports false.
//
//go:noescape
func gather32AVX(d, addr *[lanes.Count]uint32, base uintptr, off, last uint32) bool
