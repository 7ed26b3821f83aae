// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"math/bits"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
)

// shflOracle gives the lane that CUDA's shuffles read.
func shflOracle(mode string, lane, b, size int) int {
	start := lane / size * size
	from := lane
	switch mode {
	case "idx":
		return start + b&(size-1)
	case "up":
		from = lane - b
	case "down":
		from = lane + b
	case "xor":
		if from = lane ^ b; from < start+size {
			return from
		}
		return lane
	}
	if from < start || from >= start+size {
		return lane
	}
	return from
}

func TestVotes(t *testing.T) {
	t.Parallel()
	d := newTest(t, "warp")
	const n = 96
	in := randomInts(n, 12)
	out := put(d, make([]uint32, n*16))
	d.run("votes", 1, n, put(d, in), out)
	var odd uint32
	five := uint32(0)
	for _, v := range in {
		odd += uint32(v & 1)
		if v == 5 {
			five = 1
		}
	}
	want := make([]uint32, n*16)
	for i, v := range in {
		o := want[i*16:][:16]
		warp := in[i/32*32:][:32]
		lane := i % 32
		for k, x := range warp {
			if x > 3 {
				o[0] |= 1 << k
			}
			if x&1 != 0 && v&1 != 0 {
				o[8] |= 1 << k
			}
			if x == v {
				o[12] |= 1 << k
			}
		}
		o[2], o[3] = 1, lanes.All
		o[4] = uint32(warp[shflOracle("idx", lane, int(v), 8)])
		o[5] = uint32(warp[shflOracle("up", lane, 3, 32)])
		o[6] = uint32(warp[shflOracle("down", lane, 5, 16)])
		o[7] = uint32(warp[shflOracle("xor", lane, 9, 32)])
		o[9], o[10], o[11] = odd, 1, five
		o[14] = uint32(warp[lane^1])
		o[15] = uint32(bits.OnesCount32(o[0])+bits.LeadingZeros32(uint32(v))) +
			bits.Reverse32(uint32(v))
		if v != 0 {
			o[15] += uint32(bits.TrailingZeros32(uint32(v))) + 1
		}
	}
	equal(t, "votes", get[uint32](d, out, n*16), want)
}

func TestReduxes(t *testing.T) {
	t.Parallel()
	d := newTest(t, "warp")
	in := randomInts(32, 1000)
	for i := range in {
		in[i] -= 300
	}
	out := put(d, make([]uint32, 32*8))
	d.run("reduxes", 1, 32, put(d, in), out)
	var w [8]uint32
	least, most, and := in[0], in[0], ^uint32(0)
	for _, v := range in {
		w[0] += uint32(v)
		least, most = min(least, v), max(most, v)
		and &= uint32(v)
		w[4] |= uint32(v)
		w[5] ^= uint32(v)
		w[6] = max(w[6], uint32(v))
	}
	w[1], w[2], w[3] = uint32(least), uint32(most), and
	for i := range 32 {
		equal(t, "redux", get[uint32](d, out+uint64(i)*32, 8), w[:])
	}
}

func TestPartial(t *testing.T) {
	t.Parallel()
	d := newTest(t, "warp")
	out := put(d, make([]uint32, 64))
	d.run("partial", 1, 64, out)
	want := make([]uint32, 64)
	for i := range want {
		base := i / 32 * 32
		members, mask := 0, uint32(0)
		for k := range 32 {
			if (base+k)%3 == 0 {
				members++
			}
			if (base+k)%3 == i%3 {
				mask |= 1 << k
			}
		}
		want[i] = mask
		if i%3 == 0 {
			want[i] = uint32(base+3) + 100*uint32(members)
			if base == 32 {
				// Lane 3 isn't a member in the second warp: any value will do.
				want[i] = get[uint32](d, out, 64)[i]
			}
		}
	}
	equal(t, "partial", get[uint32](d, out, 64), want)
}

func TestSpecials(t *testing.T) {
	t.Parallel()
	d := newTest(t, "warp")
	const threads, blocks = 6 * 5 * 2, 2 * 3 * 2
	out, clocks := put(d, make([]uint32, threads*blocks*4)), put(d, make([]uint64, threads*blocks))
	if err := d.launch("specials", Dim{2, 3, 2}, Dim{6, 5, 2}, out,
		clocks).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := make([]uint32, threads*blocks*4)
	for i := range threads * blocks {
		lane := uint32(i % threads % 32)
		want[i*4] = lane
		want[i*4+1] = 1<<lane - 1
		want[i*4+2] = ^(uint32(1)<<lane - 1)
		want[i*4+3] = uint32(i % threads / 32)
	}
	equal(t, "specials", get[uint32](d, out, len(want)), want)
	for i, c := range get[uint64](d, clocks, threads*blocks) {
		if c == 0 {
			t.Fatalf("clock of thread %d is 0", i)
		}
	}
}

// TestQuadMasks lets each quad of a warp name its own members.
func TestQuadMasks(t *testing.T) {
	t.Parallel()
	d := newTest(t, "warp")
	const n = 64
	out := put(d, make([]uint32, 4*n))
	d.run("tiles", 1, n, out)
	want := make([]uint32, 4*n)
	for i := range uint32(n) {
		lane := i % 32
		o := want[4*i:]
		o[0] = 4 << (lane &^ 3)
		if i >= 60 {
			o[1] = 1
		}
		if lane < 8 {
			o[1] += 2
		}
		o[2] = 3 << (lane &^ 1)
		o[3] = lane ^ 3
	}
	equal(t, "tiles", get[uint32](d, out, 4*n), want)
}

// TestLanesThatWaitForOneAnother: a launch ends even if each lane names other members, which is
// undefined.
func TestLanesThatWaitForOneAnother(t *testing.T) {
	t.Parallel()
	d := newDevice(t, 4<<20)
	buffer := put(d, make([]uint64, 64))
	for _, body := range []string{
		"mov.u32 %r1, %tid.x; bar.warp.sync %r1;",
		"mov.u32 %r1, %tid.x; shfl.sync.bfly.b32 %r2, %r1, 1, 31, %r1;",
		"mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0; @%p1 bra L; " +
			"bar.warp.sync %r1; L: vote.sync.ballot.b32 %r3, %p1, %r1;",
	} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			runBody(t, d, buffer, fuzzObjects(buffer), body, time.Hour)
		}()
		select {
		case <-ended:
		case <-time.After(5 * time.Minute):
			t.Fatalf("it runs on: %s", body)
		}
	}
}
