// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/roomtest"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
)

// rig is the copies of a device.
type rig struct {
	*Copies
	*roomtest.Ground
	streams *streams.Streams
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Ground: roomtest.New(t, 64<<20)}
	r.streams = streams.New(streams.Options{Handles: r.Handles, Scheduler: r.Scheduler,
		Contexts: r.Contexts})
	r.Lasts = r.streams.Lasts
	r.Copies = New(Options{
		Contexts: r.Contexts, Scheduler: r.Scheduler, Memory: r.Memory, Streams: r.streams,
	})
	return r
}

func (r *rig) read(t *testing.T, addr uint64, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	resulttest.OK(t, r.CopyOut(b, addr))
	return b
}

// TestRandomBoxes compares copies of boxes with copies of single bytes.
func TestRandomBoxes(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	r := newRig(t)
	const size = 4096
	src, dst := r.Alloc(t, size), r.Alloc(t, size)
	from, to := make([]byte, size), make([]byte, size)
	for range 300 {
		for i := range from {
			from[i], to[i] = byte(random.Uint32()), 0
		}
		resulttest.OK(t, r.CopyIn(src, from, 0))
		resulttest.OK(t, r.MemsetD8Async(dst, 0, size, 0))
		n := func(most uint64) uint64 { return 1 + random.Uint64N(most) }
		b := gpubackend.Box{Dst: dst, Src: src, Width: n(20), Height: n(5), Depth: n(4)}
		b.DstPitch, b.SrcPitch = b.Width+n(8), b.Width+n(8)
		b.DstSlice, b.SrcSlice = b.DstPitch*b.Height+n(9), b.SrcPitch*b.Height+n(9)
		resulttest.OK(t, r.CopyBox(&b, 0))
		resulttest.OK(t, r.Idle(t))
		for z := range b.Depth {
			for y := range b.Height {
				for x := range b.Width {
					to[z*b.DstSlice+y*b.DstPitch+x] = from[z*b.SrcSlice+y*b.SrcPitch+x]
				}
			}
		}
		if !bytes.Equal(r.read(t, dst, size), to) {
			t.Fatalf("%+v", b)
		}
	}
}

func TestBoxesThatCantBe(t *testing.T) {
	r := newRig(t)
	a := r.Alloc(t, 4096)
	whole := gpubackend.Box{
		Dst: a, DstPitch: 64, DstSlice: 1024, Src: a + 2048, SrcPitch: 64, SrcSlice: 1024,
		Width: 64, Height: 16, Depth: 2,
	}
	for _, c := range []struct {
		name   string
		change func(*gpubackend.Box)
	}{
		{"as long as memory", func(*gpubackend.Box) {}},
		{"beyond its end", func(b *gpubackend.Box) { b.Src++ }},
		{"rows overlap", func(b *gpubackend.Box) { b.DstPitch = 63 }},
		{"planes overlap", func(b *gpubackend.Box) { b.SrcSlice = 1000 }},
		{"wraps", func(b *gpubackend.Box) { b.SrcSlice = 1 << 63; b.Depth = 5 }},
		{"not the device's", func(b *gpubackend.Box) { b.Dst = 4096 }},
	} {
		b := whole
		c.change(&b)
		expected := gpubackend.InvalidValue
		if b == whole {
			expected = gpubackend.Success
		}
		if result := r.CopyBox(&b, 0); result != expected {
			t.Errorf("%s: result %d, want %d", c.name, result, expected)
		}
		if result := r.CheckCopy(&gpubackend.Node{Type: gpubackend.NodeMemcpy,
			Copy: b}); result != expected {
			t.Errorf("%s, as a node: result %d, want %d", c.name, result, expected)
		}
	}
	resulttest.OK(t, r.Idle(t))
}

// TestSourceIsKept while its stream is busy: the caller may change it at once.
func TestSourceIsKept(t *testing.T) {
	r := newRig(t)
	a := r.Alloc(t, 64)
	release, result := r.streams.HostFunc(0, 0, func(uint64) {})
	resulttest.OK(t, result)
	src := []byte("as it was")
	resulttest.OK(t, r.CopyIn(a, src, 0))
	if r.Held() != uint64(len(src)) {
		t.Errorf("%d bytes are kept", r.Held())
	}
	copy(src, "different")
	release()
	resulttest.OK(t, r.Idle(t))
	if got := r.read(t, a, len(src)); string(got) != "as it was" || r.Held() != 0 {
		t.Errorf("got %q, %d bytes are kept", got, r.Held())
	}
}

// TestRegisteredMemoryMayGo before a copy begins: its context fails, and nothing is touched.
func TestRegisteredMemoryMayGo(t *testing.T) {
	r := newRig(t)
	a := r.Alloc(t, 4096)
	const host = 1 << 30
	if !r.Memory.Space().Admit(host, 4096, true) {
		t.Fatal("not admitted")
	}
	release, result := r.streams.HostFunc(0, 0, func(uint64) {})
	resulttest.OK(t, result)
	resulttest.OK(t, r.Copy(host, a, 4096, 0))
	r.Memory.Space().Withdraw(host)
	release()
	resulttest.Want(t, r.Idle(t), gpubackend.IllegalAddress)
}

func TestFills(t *testing.T) {
	r := newRig(t)
	a := r.Alloc(t, 4096)
	resulttest.OK(t, r.MemsetD32Async(a, 0x04030201, 2, 0))
	resulttest.OK(t, r.MemsetD2D16Async(a+16, 8, 0xbbaa, 2, 2, 0))
	resulttest.OK(t, r.Idle(t))
	want := []byte{1, 2, 3, 4, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0xaa, 0xbb, 0xaa, 0xbb, 0, 0, 0,
		0, 0xaa, 0xbb, 0xaa, 0xbb}
	if got := r.read(t, a, len(want)); !bytes.Equal(got, want) {
		t.Errorf("got %x", got)
	}
	resulttest.Want(t, r.MemsetD32Async(a+2, 0, 1, 0), gpubackend.InvalidValue)
	resulttest.Want(t, r.MemsetD2D32Async(a, 6, 0, 1, 2, 0), gpubackend.InvalidValue)
	resulttest.Want(t, r.MemsetD32Async(0, 0, 1, 0), gpubackend.InvalidValue)
	null := &gpubackend.Node{Type: gpubackend.NodeMemset}
	null.Fill = gpubackend.Fill{Element: 4, Width: 1, Height: 1}
	resulttest.OK(t, r.CheckFill(null))
	c, _ := r.Contexts.Current()
	run, result := r.PrepareFill(null, c)
	resulttest.OK(t, result)
	r.Scheduler.Submit(run(), nil)
	resulttest.Want(t, r.Idle(t), gpubackend.IllegalAddress)
}
