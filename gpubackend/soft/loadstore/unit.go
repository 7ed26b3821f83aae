// SPDX-License-Identifier: Apache-2.0

package loadstore

import (
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
)

// Memory tells which device addresses are valid. It must be safe for
// concurrent use, and need not be fast: results are cached per worker for the
// time of a launch.
type Memory interface {
	// Lookup returns the range of valid addresses around addr. The range is
	// mapped in this process at the same address for reading, and for writing
	// where writable is set.
	Lookup(addr uint64) (base, end uint64, writable, ok bool)
}

// A Unit is what a warp accesses memory with: its registers, and where its memory is.
type Unit struct {
	lanes.Registers // of the frame

	Cache       *Cache
	Shared      uintptr // memory of the block
	SharedSize  uint64
	Params      uintptr // of the kernel
	ParamSize   uint64
	LocalBase   uintptr // memory of the lanes
	LocalStride uint64  // of a lane
	Fail        Failed
}

// Failed is told that a lane's access failed, with CUDA's code and what happened.
type Failed func(lane, code int, format string, args ...any)

// A Func executes an access for the lanes of mask m.
type Func func(u *Unit, in *decoded.Inst, m uint32)
