// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
)

// execFunc executes an instruction for the lanes of mask m.
type execFunc func(w *warp, in *decoded.Inst, m uint32)

// execs has the function of each operation; that of unknown operations faults.
var execs [256]execFunc

func init() {
	for op := range execs {
		execs[op] = execUnknown
	}
	for op, exec := range map[decoded.Op]execFunc{
		decoded.OpFence: execFence,

		decoded.OpTexture: execTexture, decoded.OpGather: execGather,
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
}

func execUnknown(w *warp, _ *decoded.Inst, m uint32) {
	w.failAt(lanes.First(m), cudaabi.ErrorIllegalInstruction, "unknown operation")
}

func execTrap(w *warp, _ *decoded.Inst, m uint32) {
	w.failAt(lanes.First(m), cudaabi.ErrorLaunchFailed, "trap")
}

// execFence is membar and fence.
func execFence(w *warp, _ *decoded.Inst, _ uint32) { w.fence.Add(1) }
