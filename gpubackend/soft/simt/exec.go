// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
)

// execFunc executes an instruction for the lanes of mask m.
type execFunc func(w *warp, in *decoded.Inst, m uint32)

// execs are what executes each operation; those that don't exist fault.
var execs [256]execFunc

func init() {
	for op := range execs {
		execs[op] = execUnknown
	}
	for op, exec := range map[decoded.Op]execFunc{
		decoded.OpLoad: execLoad, decoded.OpStore: execStore, decoded.OpLoadParam: execLoadParam,
		decoded.OpCopyAsync: execCopyAsync, decoded.OpFence: execFence,
		decoded.OpMbarrierInit: execMbarrierInit, decoded.OpMbarrierArrive: execMbarrierArrive,
		decoded.OpMbarrierTest: execMbarrierTest, decoded.OpMbarrierInval: execMbarrierInval,
		decoded.OpAdd32: atomically(atomicAdd32), decoded.OpAdd64: atomically(atomicAdd64),
		decoded.OpSwap32: atomically(atomicSwap32), decoded.OpSwap64: atomically(atomicSwap64),
		decoded.OpUpdate16: atomically(atomicUpdate16),
		decoded.OpUpdate32: atomically(atomicUpdate32),
		decoded.OpUpdate64: atomically(atomicUpdate64),
		decoded.OpTexture:  execTexture, decoded.OpGather: execGather,
		decoded.OpQueryTexture: execQueryTexture, decoded.OpQuerySurface: execQuerySurface,
		decoded.OpSurfaceLoad: execSurfaceLoad, decoded.OpSurfaceStore: execSurfaceStore,
		decoded.OpClock: execClock, decoded.OpTimer: execTimer,
		decoded.OpActiveMask: execActiveMask,
		decoded.OpVoteAll:    execVoteAll, decoded.OpVoteAny: execVoteAny,
		decoded.OpVoteUni:   execVoteUni,
		decoded.OpBallot:    execBallot,
		decoded.OpShuffleUp: shuffleBy(shflUp), decoded.OpShuffleDown: shuffleBy(shflDown),
		decoded.OpShuffleBfly: shuffleBy(shflBfly), decoded.OpShuffleIdx: shuffleBy(shflIdx),
		decoded.OpMatchAny: execMatchAny, decoded.OpMatchAll: execMatchAll,
		decoded.OpRedux: execRedux, decoded.OpElect: execElect, decoded.OpTrap: execTrap,
	} {
		execs[op] = exec
	}
	quickExecs()
}

// quickExecs adds the loads and stores that have a way of their own.
func quickExecs() {
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
		execs[decoded.QuickAccess(decoded.AccessShared32, decoded.Access32,
			false)] = loadSharedWords
	}
}

func quickElement[M memType, R regType](e decoded.AccessElement) {
	execs[decoded.QuickAccess(decoded.AccessGlobal, e, false)] = loadGlobal[M, R]
	execs[decoded.QuickAccess(decoded.AccessGlobal, e, true)] = storeGlobal[M, R]
	execs[decoded.QuickAccess(decoded.AccessShared, e, false)] = loadShared[M, R, uint64]
	execs[decoded.QuickAccess(decoded.AccessShared, e, true)] = storeShared[M, R, uint64]
	execs[decoded.QuickAccess(decoded.AccessShared32, e, false)] = loadShared[M, R, uint32]
	execs[decoded.QuickAccess(decoded.AccessShared32, e, true)] = storeShared[M, R, uint32]
}

func quickVectors[M memType, R regType](e decoded.AccessElement) {
	execs[decoded.QuickAccess(decoded.AccessVector, e, false)] = loadVector[M, R]
	execs[decoded.QuickAccess(decoded.AccessVector, e, true)] = storeVector[M, R]
}

func execUnknown(w *warp, _ *decoded.Inst, m uint32) {
	w.failAt(lanes.First(m), cudaabi.ErrorIllegalInstruction, "unknown operation")
}

func execTrap(w *warp, _ *decoded.Inst, m uint32) {
	w.failAt(lanes.First(m), cudaabi.ErrorLaunchFailed, "trap")
}

// execFence is membar and fence.
func execFence(w *warp, _ *decoded.Inst, _ uint32) { w.fence.Add(1) }

// execMbarrierInval has nothing to do: what is in the object doesn't count any more.
func execMbarrierInval(*warp, *decoded.Inst, uint32) {}
