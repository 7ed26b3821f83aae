// SPDX-License-Identifier: Apache-2.0

package sums

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// base is where the fake's device memory begins.
const base = 0x500000000000

// fake is a driver whose kernels run at any time between launch and the end of a wait.
type fake struct {
	t      *testing.T
	random *rand.Rand
	sums   []uint64 // of each sector of device memory
	queued []func()
	work   activity.Activity
	left   map[string]int // how many there are of each kind
	block  cmem.Memory
	fail   int // the call that fails; -1: none
	waits  int
}

func newFake(t *testing.T) *fake {
	return &fake{t: t, random: rand.New(rand.NewPCG(1, 2)), left: map[string]int{}, fail: -1}
}

func (f *fake) result() gpubackend.Result {
	if f.fail--; f.fail == -1 {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

func (f *fake) made(kind string) (uint64, gpubackend.Result) {
	if r := f.result(); r != gpubackend.Success {
		return 0, r
	}
	f.left[kind]++
	return 7, gpubackend.Success
}

func (f *fake) gone(kind string) gpubackend.Result {
	f.left[kind]--
	return gpubackend.Success
}

func (f *fake) ModuleLoad(
	image cmem.Memory, _ *driver.Options,
) (gpubackend.Module, gpubackend.Result) {
	if n := len(sectorsum.Kernel); string(image.Bytes()[:n]) != sectorsum.Kernel ||
		image.Bytes()[n] != 0 {
		f.t.Error("another module")
	}
	m, r := f.made("module")
	return gpubackend.Module(m), r
}

func (f *fake) ModuleUnload(gpubackend.Module) gpubackend.Result { return f.gone("module") }

func (f *fake) ModuleGetFunction(
	_ gpubackend.Module, name string,
) (gpubackend.Function, gpubackend.Result) {
	if name != sectorsum.KernelName {
		f.t.Errorf("function %s", name)
	}
	return 3, f.result()
}

func (f *fake) MemHostAlloc(n uint64) (uint64, gpubackend.Result) {
	if _, r := f.made("memory"); r != gpubackend.Success {
		return 0, r
	}
	f.block = cmem.Allocate(int(n))
	return f.block.Address(), gpubackend.Success
}

func (f *fake) MemFreeHost(uint64) gpubackend.Result {
	f.block.Free()
	return f.gone("memory")
}

func (f *fake) StreamCreateWithPriority(_, _ uint64) (gpubackend.Stream, gpubackend.Result) {
	s, r := f.made("stream")
	return gpubackend.Stream(s), r
}

func (f *fake) StreamDestroy(gpubackend.Stream) gpubackend.Result { return f.gone("stream") }

func (f *fake) StreamSynchronize(gpubackend.Stream) gpubackend.Result {
	f.waits++
	for _, run := range f.queued {
		run()
	}
	f.queued = nil
	return f.result()
}

func (f *fake) LaunchKernel(
	l *gpubackend.Launch, _ []byte, _ []uint32,
) gpubackend.Result {
	f.work.Touch(l.Stream)
	if r := f.result(); r != gpubackend.Success {
		return r
	}
	if l.Block != [3]uint32{sectorsum.Lanes, 1, 1} || l.Grid[1] != 1 || l.Grid[2] != 1 ||
		len(l.Parameters) != 24 {
		f.t.Errorf("launch %+v", l)
	}
	n := l.Grid[0]
	at := (binary.LittleEndian.Uint64(l.Parameters) - base) / sectorsum.Bytes
	key := binary.LittleEndian.Uint64(l.Parameters[8:])
	to := cmem.At(binary.LittleEndian.Uint64(l.Parameters[16:]), int(8*n))
	run := func() {
		for i := range uint64(n) {
			binary.NativeEndian.PutUint64(to[8*i:], f.sums[at+i]^key)
		}
	}
	if f.random.IntN(2) == 0 && len(f.queued) == 0 {
		run()
	} else {
		f.queued = append(f.queued, run)
	}
	return gpubackend.Success
}

// check says that nothing is left.
func (f *fake) check() {
	f.t.Helper()
	for kind, n := range f.left {
		if n != 0 {
			f.t.Errorf("%d of kind %s are left", n, kind)
		}
	}
	if s, left := f.work.Latest(); left {
		f.t.Errorf("stream %d is gone, and still to be asked for its work", s)
	}
}

// pieces are some with more sectors than are summed at a time, and the sums of these sectors.
func (f *fake) pieces(key uint64) (list []gpubackend.Piece, want []uint64) {
	f.sums = make([]uint64, 3*most)
	for i := range f.sums {
		f.sums[i] = f.random.Uint64()
	}
	for at := uint64(0); ; {
		n := f.random.Uint64N(most/2) + 1
		if len(list) == 2 {
			n = most
		}
		if at+n > uint64(len(f.sums)) {
			return list, want
		}
		list = append(list, gpubackend.Piece{
			Address: base + at*sectorsum.Bytes, Bytes: n * sectorsum.Bytes,
		})
		for _, sum := range f.sums[at : at+n] {
			want = append(want, sum^key)
		}
		at += n + f.random.Uint64N(9)
	}
}

func TestSum(t *testing.T) {
	f := newFake(t)
	s, r := New(f, &f.work)
	if r != gpubackend.Success {
		t.Fatal(r)
	}
	for key := range uint64(4) {
		list, want := f.pieces(key)
		sums := make([]uint64, len(want))
		f.waits = 0
		if r := s.Sum(key, list, sums); r != gpubackend.Success || !slices.Equal(sums, want) {
			t.Errorf("result %d, sums of %d pieces are right: %v", r, len(list),
				slices.Equal(sums, want))
		}
		if most := 1 + len(want)/most; f.waits > most {
			t.Errorf("%d waits, more than %d", f.waits, most)
		}
	}
	s.Close()
	f.check()
}

// TestFails: whichever call fails, its error is returned, and nothing is left.
func TestFails(t *testing.T) {
	for at := 0; ; at++ {
		f := newFake(t)
		list, want := f.pieces(0)
		f.fail = at
		s, r := New(f, &f.work)
		if r == gpubackend.Success {
			r = s.Sum(0, list, make([]uint64, len(want)))
		}
		none := f.fail >= 0
		s.Close()
		f.check()
		if none {
			if r != gpubackend.Success {
				t.Errorf("result %d, where nothing failed", r)
			}
			return
		}
		if r != gpubackend.OutOfMemory {
			t.Errorf("call %d failed: result %d", at, r)
		}
	}
}
