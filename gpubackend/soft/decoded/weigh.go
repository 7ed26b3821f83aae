// SPDX-License-Identifier: Apache-2.0

package decoded

import "reflect"

// take counts memory that the program is about to take. Loading ends soon after there is no more.
func (p *Program) take(bytes uint64) {
	if p.over == nil {
		p.over = p.mem.Take(bytes)
	}
}

// more makes what only few instructions need.
func (d *decoder) more(m More) *More {
	d.prog.take(moreBytes)
	return &m
}

// What each thing counts for. Lists double as they grow, so their elements count twice; a map's
// entries take some 100 bytes beside what they hold.
var (
	instBytes     = 2 * sizeOf[Inst]()
	moreBytes     = sizeOf[More]() + sizeOf[Texture]() + maxRegs*(4+1)
	targetBytes   = 2 * sizeOf[int32]()
	callBytes     = sizeOf[CallSite]() + mapBytes
	valueBytes    = 2 * sizeOf[Value]()
	presetBytes   = sizeOf[Preset]() + 2*sizeOf[presetRegister]() + mapBytes
	functionBytes = sizeOf[Function]() + 2*mapBytes
	kernelBytes   = sizeOf[Kernel]() + 2*mapBytes
	globalBytes   = 2*sizeOf[Global]() + mapBytes
)

const (
	mapBytes      = 100
	maxRegs       = 16 // of a vector
	registerBytes = 2 * (4 + 1)
	startBytes    = 2 * 4
	offsetBytes   = 2 * 8
	sharedBytes   = 2 * mapBytes // beside the temporary one
)

func sizeOf[T any]() uint64 { return uint64(reflect.TypeFor[T]().Size()) }
