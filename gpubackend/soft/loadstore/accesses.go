// SPDX-License-Identifier: Apache-2.0

package loadstore

import (
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
)

// Accesses has the function of each operation on memory; that of unknown operations faults.
var Accesses [256]Func

func init() {
	for op := range Accesses {
		Accesses[op] = unknown
	}
	for op, access := range map[decoded.Op]Func{
		decoded.OpLoad: execLoad, decoded.OpStore: execStore,
		decoded.OpLoadParam: execLoadParam, decoded.OpCopyAsync: execCopyAsync,
		decoded.OpMbarrierInit: execMbarrierInit, decoded.OpMbarrierArrive: execMbarrierArrive,
		decoded.OpMbarrierTest: execMbarrierTest, decoded.OpMbarrierInval: execMbarrierInval,
		decoded.OpAdd32: atomically(atomicAdd32), decoded.OpAdd64: atomically(atomicAdd64),
		decoded.OpSwap32: atomically(atomicSwap32), decoded.OpSwap64: atomically(atomicSwap64),
		decoded.OpUpdate16: atomically(atomicUpdate16),
		decoded.OpUpdate32: atomically(atomicUpdate32),
		decoded.OpUpdate64: atomically(atomicUpdate64),
	} {
		Accesses[op] = access
	}
	quickAccesses()
}

// quickAccesses adds the loads and stores that have a way of their own.
func quickAccesses() {
	quickElement[uint32, uint32](decoded.Access32)
	quickElement[uint64, uint64](decoded.Access64)
	quickElement[uint16, uint16](decoded.Access16)
	quickElement[uint8, uint16](decoded.AccessU8in16)
	quickElement[int8, uint16](decoded.AccessS8in16)
	quickElement[uint8, uint32](decoded.AccessU8in32)
	quickElement[int8, uint32](decoded.AccessS8in32)
	quickVectors[uint32, uint32](decoded.Access32)
	quickVectors[uint64, uint64](decoded.Access64)
	quickVectors[uint16, uint16](decoded.Access16)
	quickVectors[uint8, uint16](decoded.AccessU8in16)
	if useAVX {
		Accesses[decoded.QuickAccess(decoded.AccessShared32, decoded.Access32,
			false)] = loadSharedWords
	}
}

func quickElement[M memType, R regType](e decoded.AccessElement) {
	Accesses[decoded.QuickAccess(decoded.AccessGlobal, e, false)] = loadGlobal[M, R]
	Accesses[decoded.QuickAccess(decoded.AccessGlobal, e, true)] = storeGlobal[M, R]
	Accesses[decoded.QuickAccess(decoded.AccessShared, e, false)] = loadShared[M, R, uint64]
	Accesses[decoded.QuickAccess(decoded.AccessShared, e, true)] = storeShared[M, R, uint64]
	Accesses[decoded.QuickAccess(decoded.AccessShared32, e, false)] = loadShared[M, R, uint32]
	Accesses[decoded.QuickAccess(decoded.AccessShared32, e, true)] = storeShared[M, R, uint32]
}

func quickVectors[M memType, R regType](e decoded.AccessElement) {
	Accesses[decoded.QuickAccess(decoded.AccessVector, e, false)] = loadVector[M, R]
	Accesses[decoded.QuickAccess(decoded.AccessVector, e, true)] = storeVector[M, R]
}

func unknown(u *Unit, _ *decoded.Inst, m uint32) {
	u.Fail(lanes.First(m), cudaabi.ErrorIllegalInstruction, "unknown operation")
}
