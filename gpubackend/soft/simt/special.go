// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/loadstore"
)

// specialValue gives a special register that doesn't change while a block runs.
// One of the functions is set, by what the value depends on.
type specialValue struct {
	launch func(r *launchRun) uint64
	block  func(b *block) uint64
	lane   func(w *warp, lane uint32) uint64
}

func ofLaunch(f func(r *launchRun) uint64) specialValue { return specialValue{launch: f} }

func ofBlock(f func(b *block) uint64) specialValue { return specialValue{block: f} }

func ofLane(f func(w *warp, lane uint32) uint64) specialValue { return specialValue{lane: f} }

func constantValue(x uint64) specialValue {
	return ofLaunch(func(*launchRun) uint64 { return x })
}

// ofReserved is an offset in shared memory.
func ofReserved(at uint64) specialValue {
	return ofLaunch(func(r *launchRun) uint64 { return r.shared.reservedAt + at })
}

// clearReserved fills reserved memory with zeros, as a block begins.
func (b *block) clearReserved() {
	if n := b.run.Kernel.Reserved; n > 0 {
		loadstore.ClearBytes(b.sharedBase+uintptr(b.run.shared.reservedAt), n)
	}
}

// specialValues are the special registers by their numbers.
var specialValues = numberedSpecials()

func numberedSpecials() []specialValue {
	values := make([]specialValue, len(decoded.SpecialNames))
	for i, name := range decoded.SpecialNames {
		values[i] = specialsByName[name]
	}
	return values
}

// specialsByName are all special registers. Clusters are of one block.
var specialsByName = map[string]specialValue{
	"tid.x": ofLane(func(w *warp, l uint32) uint64 { return uint64(w.tid(l).X) }),
	"tid.y": ofLane(func(w *warp, l uint32) uint64 { return uint64(w.tid(l).Y) }),
	"tid.z": ofLane(func(w *warp, l uint32) uint64 { return uint64(w.tid(l).Z) }),

	"laneid":      ofLane(func(_ *warp, l uint32) uint64 { return uint64(l) }),
	"lanemask_eq": ofLane(func(_ *warp, l uint32) uint64 { return 1 << l }),
	"lanemask_lt": ofLane(func(_ *warp, l uint32) uint64 { return 1<<l - 1 }),
	"lanemask_le": ofLane(func(_ *warp, l uint32) uint64 { return 2<<l - 1 }),
	"lanemask_gt": ofLane(func(_ *warp,
		l uint32) uint64 {
		return uint64(lanes.All) &^ (2<<l - 1)
	}),
	"lanemask_ge": ofLane(func(_ *warp,
		l uint32) uint64 {
		return uint64(lanes.All) &^ (1<<l - 1)
	}),
	"warpid": ofLane(func(w *warp, _ uint32) uint64 { return uint64(w.index) }),

	"ntid.x":   ofLaunch(func(r *launchRun) uint64 { return uint64(r.Block.X) }),
	"ntid.y":   ofLaunch(func(r *launchRun) uint64 { return uint64(r.Block.Y) }),
	"ntid.z":   ofLaunch(func(r *launchRun) uint64 { return uint64(r.Block.Z) }),
	"nctaid.x": ofLaunch(func(r *launchRun) uint64 { return uint64(r.Grid.X) }),
	"nctaid.y": ofLaunch(func(r *launchRun) uint64 { return uint64(r.Grid.Y) }),
	"nctaid.z": ofLaunch(func(r *launchRun) uint64 { return uint64(r.Grid.Z) }),
	"nwarpid": ofLaunch(func(r *launchRun) uint64 {
		return (r.Block.Count() + lanes.Count - 1) / lanes.Count
	}),
	"nsmid":  ofLaunch(func(r *launchRun) uint64 { return uint64(r.sms.all) }),
	"gridid": ofLaunch(func(r *launchRun) uint64 { return r.GridID }),

	// The address of a cooperative launch's workspace, in two halves.
	"envreg1": ofLaunch(func(r *launchRun) uint64 { return uint64(r.workspace.base) >> 32 }),
	"envreg2": ofLaunch(func(r *launchRun) uint64 { return uint64(r.workspace.base) & 0xffffffff }),

	"dynamic_smem_size": ofLaunch(func(r *launchRun) uint64 { return uint64(r.SharedBytes) }),
	"total_smem_size":   ofLaunch(func(r *launchRun) uint64 { return r.shared.own }),
	"aggr_smem_size":    ofLaunch(func(r *launchRun) uint64 { return r.shared.own }),

	decoded.ReservedPrefix + "begin": ofReserved(0),
	decoded.ReservedPrefix + "end":   ofReserved(decoded.ReservedShared),
	decoded.ReservedPrefix + "cap":   constantValue(decoded.ReservedShared),
	decoded.ReservedPrefix + "0":     ofReserved(0),
	decoded.ReservedPrefix + "1":     ofReserved(decoded.ReservedOfGroups),

	"ctaid.x": ofBlock(func(b *block) uint64 { return uint64(b.id.X) }),
	"ctaid.y": ofBlock(func(b *block) uint64 { return uint64(b.id.Y) }),
	"ctaid.z": ofBlock(func(b *block) uint64 { return uint64(b.id.Z) }),
	"smid":    ofBlock(func(b *block) uint64 { return uint64(b.sm) }),

	"clusterid.x":         ofBlock(func(b *block) uint64 { return uint64(b.id.X) }),
	"clusterid.y":         ofBlock(func(b *block) uint64 { return uint64(b.id.Y) }),
	"clusterid.z":         ofBlock(func(b *block) uint64 { return uint64(b.id.Z) }),
	"nclusterid.x":        ofLaunch(func(r *launchRun) uint64 { return uint64(r.Grid.X) }),
	"nclusterid.y":        ofLaunch(func(r *launchRun) uint64 { return uint64(r.Grid.Y) }),
	"nclusterid.z":        ofLaunch(func(r *launchRun) uint64 { return uint64(r.Grid.Z) }),
	"cluster_nctaid.x":    constantValue(1),
	"cluster_nctaid.y":    constantValue(1),
	"cluster_nctaid.z":    constantValue(1),
	"cluster_ctaid.x":     constantValue(0),
	"cluster_ctaid.y":     constantValue(0),
	"cluster_ctaid.z":     constantValue(0),
	"cluster_ctarank":     constantValue(0),
	"cluster_nctarank":    constantValue(1),
	"is_explicit_cluster": constantValue(0),
}

// tid is the position in the block of a lane's thread.
func (w *warp) tid(lane uint32) Dim {
	n := w.index*lanes.Count + lane
	size := w.block.run.Block
	return Dim{n % size.X, n / size.X % size.Y, n / size.X / size.Y}
}

var started = time.Now()

// execClock counts in nanoseconds: a clock of 1 GHz.
func execClock(w *warp, in *decoded.Inst, m uint32) {
	w.Fill(in.D, in.DW, uint64(time.Since(started))>>in.Imm, m)
}

func execTimer(w *warp, in *decoded.Inst, m uint32) {
	w.Fill(in.D, in.DW, uint64(time.Now().UnixNano())>>in.Imm, m)
}

func execActiveMask(w *warp, in *decoded.Inst, m uint32) {
	w.Fill(in.D, in.DW, uint64(m&^w.dead), m)
}
