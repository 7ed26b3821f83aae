// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

func TestCollatz(t *testing.T) {
	t.Parallel()
	d := newTest(t, "flow")
	const n = 1000
	in, want := make([]uint32, n), make([]uint32, n)
	for i := range in {
		in[i] = uint32(i*i + 1)
		for x := uint64(in[i]); x != 1; want[i]++ {
			if x&1 != 0 {
				x = 3*x + 1
			} else {
				x >>= 1
			}
		}
	}
	out := put(d, make([]uint32, n))
	d.run("collatz", 4, 256, put(d, in), out, int32(n))
	equal(t, "steps", get[uint32](d, out, n), want)
}

// nestedOracle is kernel nested for one thread.
func nestedOracle(thread, v int32) int32 {
	var r int32
	for i := int32(0); i < v; i++ {
		switch (i + thread) % 7 {
		case 0:
			r += 3
		case 1:
			r ^= i
		case 2:
			if r&1 != 0 {
				continue
			}
			r += 5
		case 3:
			r = r*3 + 1
		case 4:
			if r > 1000 {
				return r
			}
			r -= 2
		case 5:
			for k := int32(0); k < thread%4; k++ {
				r += k
			}
		default:
			r++
		}
	}
	return r
}

func TestNested(t *testing.T) {
	t.Parallel()
	d := newTest(t, "flow")
	for _, n := range []int{1, 31, 32, 200} {
		in := randomInts(n, 60)
		want := make([]int32, n)
		for i := range want {
			want[i] = nestedOracle(int32(i), in[i])
		}
		out := put(d, make([]int32, n))
		d.run("nested", 1, n, put(d, in), out)
		equal(t, fmt.Sprintf("out of %d", n), get[int32](d, out, n), want)
	}
}

func TestRecursion(t *testing.T) {
	t.Parallel()
	d := newTest(t, "flow")
	fib := []int32{0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144}
	want := make([]int32, 64)
	for i := range want {
		want[i] = fib[i%13]
	}
	out := put(d, make([]int32, 64))
	d.run("recursion", 1, 64, out)
	equal(t, "fib", get[int32](d, out, 64), want)
}

func TestStructs(t *testing.T) {
	t.Parallel()
	type pair struct {
		A int32
		_ int32
		B float64
		C [7]int8
		_ int8
	}
	d := newTest(t, "flow")
	in := pair{A: 5, B: 1.5, C: [7]int8{1, 2, 3, 4, 5, 6, 7}}
	want := make([]pair, 32)
	for i := range want {
		want[i] = in
		want[i].A += int32(i)
		want[i].B *= float64(i)
		want[i].C[i%7]++
	}
	out := put(d, make([]pair, 32))
	d.run("structs", 1, 32, in, out)
	equal(t, "pairs", get[pair](d, out, 32), want)
}

func TestIndirect(t *testing.T) {
	t.Parallel()
	d := newTest(t, "flow")
	want := make([]int32, 40)
	for i := range want {
		want[i] = []int32{int32(i) + 5, int32(i) - 5, int32(i) * 5}[i%3]
	}
	out := put(d, make([]int32, 40))
	d.run("indirect", 1, 40, out)
	equal(t, "out", get[int32](d, out, 40), want)
}

func TestVirtuals(t *testing.T) {
	t.Parallel()
	d := newTest(t, "flow")
	want := make([]float32, 64)
	for i := range want {
		want[i] = float32(i * i)
		if i&1 == 0 {
			want[i] *= 3
		}
	}
	out := put(d, make([]float32, 64))
	for range 3 {
		d.run("virtuals", 1, 64, out)
		equal(t, "area", get[float32](d, out, 64), want)
	}
	if d.heap.Len() != 0 {
		t.Errorf("%d blocks of the heap not freed", d.heap.Len())
	}
}

func TestLocks(t *testing.T) {
	t.Parallel()
	d := newTest(t, "flow")
	counter := put(d, []int32{0})
	d.run("spinLock", 4, 64, counter)
	equal(t, "counter", get[int32](d, counter, 1), []int32{256})
	value := put(d, []int32{0})
	d.run("producerConsumer", 2, 64, value)
	equal(t, "value", get[int32](d, value, 1), []int32{42})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	d := newTest(t, "flow")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := d.launch("endless", linear(10), linear(64), put(d, []int32{0})).Run(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v, want a deadline", err)
	}
}

func TestPrintf(t *testing.T) {
	t.Parallel()
	d := newTest(t, "flow")
	d.run("hello", 1, 3, int32(3), put(d, []byte("world\x00")))
	want := "hello 0 of 3: world  0.00 x% 123456789abc\n" +
		"hello 1 of 3: world  0.50 x% 123456789abc\n" +
		"hello 2 of 3: world  1.00 x% 123456789abc\n"
	if got := d.stdout.String(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

// wantFault runs a launch that must end with a fault.
func wantFault(t *testing.T, l *Launch, code int) {
	t.Helper()
	err := l.Run(context.Background())
	var fault *KernelError
	if !errors.As(err, &fault) || fault.Code != code {
		t.Errorf("error %v, want fault %d", err, code)
	}
}

func TestAssert(t *testing.T) {
	t.Parallel()
	d := newTest(t, "flow")
	d.run("failing", 1, 30, int32(30))
	wantFault(t, d.launch("failing", linear(1), linear(32), int32(31)), cudaabi.ErrorAssert)
	want := "flow.cu:" +
		"LINE: void failing(int): block: [0,0,0], thread: [31,0,0] " +
		"Assertion `(int)threadIdx.x < limit && \"too many\"` failed.\n"
	got := d.assert.String()
	if i, j := strings.Index(got, ":"), strings.Index(got, ": "); i > 0 && j > i {
		got = got[:i+1] + "LINE" + got[j:]
	}
	if got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	d := newTest(t, "flow")
	p := put(d, make([]int32, 64))
	wantFault(t, d.launch("badAddress", linear(1), linear(32), uint64(0), int32(0)),
		cudaabi.ErrorIllegalAddress)
	wantFault(t, d.launch("badAddress", linear(1), linear(32), p, int32(1<<28)),
		cudaabi.ErrorIllegalAddress)
	wantFault(t, d.launch("badAddress", linear(1), linear(32), p+2, int32(0)),
		cudaabi.ErrorMisalignedAddress)
	wantFault(t, d.launch("badAddress", linear(1), linear(2048), p, int32(0)),
		cudaabi.ErrorInvalidValue)
	wantFault(t, d.launch("badAddress", linear(0), linear(32), p, int32(0)),
		cudaabi.ErrorInvalidValue)
	l := d.launch("badAddress", linear(1), linear(32), p, int32(0))
	l.Params = l.Params[:8]
	wantFault(t, l, cudaabi.ErrorInvalidValue)
}

func TestLocalArray(t *testing.T) {
	t.Parallel()
	d := newTest(t, "flow")
	in := randomInts(32, 1000)
	want := make([]int32, 32)
	for x := range want {
		for i := range 16 {
			k := (int(in[i]) + x) & 15
			want[x] = want[x]*3 + in[(x+k)&31] + int32(k)
		}
	}
	out := put(d, make([]int32, 32))
	d.run("localArray", 1, 32, put(d, in), out)
	equal(t, "out", get[int32](d, out, 32), want)
}
