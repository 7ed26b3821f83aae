// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"reflect"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
)

// What a launch takes of the host's memory: for each runner a block with its warps and the kernel's
// own registers and local memory, from the start; then registers and local memory of calls, as
// these get deeper. All of it is given back at the end.

var (
	warpBytes  = sizeOf2[warp]() + 2*lanes.Count*sizeOf2[split]()
	frameBytes = sizeOf2[frame]() + 2*2*8 + slabBytes
)

// slabBytes is what lanes.NewSlab takes beside the size.
const slabBytes = lanes.SlabAlign + 8

// admit takes memory for runners and returns their number: at least one, or none where memory is
// short. Further ones leave half of what the process may have to other launches. Where blocks must
// run together, it is all or none.
func (r *launchRun) admit() (runners int) {
	r.runnerBytes = HostBytes(r.Kernel, r.Block.Count(), uint64(r.SharedBytes))
	spare := r.HostMemory.Limit() / 2
	for runners < r.Workers {
		more := runners > 0 && !r.Cooperative
		if more && !r.HostMemory.Room(r.runnerBytes+spare) ||
			r.HostMemory.Take(r.runnerBytes) != nil {
			break
		}
		runners++
	}
	if r.Cooperative && runners < r.Workers {
		r.HostMemory.Give(uint64(runners) * r.runnerBytes)
		return 0
	}
	return runners
}

// leave gives back what a runner has.
func (k *runner) leave() {
	k.memory.Close()
	k.run.HostMemory.Give(k.run.runnerBytes)
}

// HostBytes is the least that a launch takes of the host's memory: with one block at a time.
func HostBytes(k *decoded.Kernel, threads, sharedBytes uint64) uint64 {
	warps := (threads + lanes.Count - 1) / lanes.Count
	each := warpBytes + frameBytes + uint64(k.Function.FrameSize)
	if k.Function.LocalSize > 0 {
		each += localStride(k.Function.LocalSize)*lanes.Count + slabBytes
	}
	shared := k.DynamicAt + sharedBytes + reservedBytes(k) + slabBytes
	return uint64(len(k.Program.Decoded))*sliceBytes + shared + warps*each
}

const sliceBytes = 24

func sizeOf2[T any]() uint64 { return uint64(reflect.TypeFor[T]().Size()) }

// reservedBytes is what reserved shared memory takes at most.
func reservedBytes(k *decoded.Kernel) uint64 {
	if k.Reserved == 0 {
		return 0
	}
	return k.Reserved + decoded.ReservedAlign
}

// localStride is what each lane has for so much local memory.
func localStride(size uint64) uint64 {
	stride := uint64(256)
	for stride < size {
		stride *= 2
	}
	return stride
}

// callFrame returns a frame for a call, nil where memory is short.
func (k *runner) callFrame(fn *decoded.Function) *frame {
	if pool := k.frames[fn.Index]; len(pool) > 0 {
		f := pool[len(pool)-1]
		k.frames[fn.Index] = pool[:len(pool)-1]
		f.free = false
		k.used++
		return f
	}
	if k.memory.Take(frameBytes+uint64(fn.FrameSize)) != nil {
		return nil
	}
	f := k.newFrame(fn)
	k.made = append(k.made, f)
	k.used++
	return f
}

// freeFrame keeps a frame for the next call of its function.
func (k *runner) freeFrame(f *frame) {
	f.free = true
	k.used--
	k.frames[f.fn.Index] = append(k.frames[f.fn.Index], f)
}

// freeFrames frees the frames of calls that never returned because their threads ended in them.
func (k *runner) freeFrames() {
	if k.used == 0 {
		return
	}
	for _, f := range k.made {
		if !f.free {
			k.freeFrame(f)
		}
	}
}

// takeLocal counts a warp's new local memory, which is larger, in the place of the old one; the
// first was counted at the start.
func (k *runner) takeLocal(w *warp, stride uint64) bool {
	if w.LocalStride == 0 && stride == localStride(k.run.fn.LocalSize) && k.run.fn.LocalSize > 0 {
		return true
	}
	if k.memory.Take(stride*lanes.Count+slabBytes) != nil {
		return false
	}
	if w.LocalStride > 0 {
		k.memory.Give(w.LocalStride*lanes.Count + slabBytes)
	}
	return true
}
