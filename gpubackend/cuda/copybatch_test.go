// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/copies"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// TestCopyBatch queues copies with one call, and uses the batch again.
func TestCopyBatch(t *testing.T) {
	const n, parts = 1000, 4
	d := newDevice(t, Options{})
	stream, r := d.StreamCreateWithPriority(cudaabi.StreamNonBlocking, 0)
	must(t, "make a stream", r)
	from, to := alloc(t, d, n), alloc(t, d, n)
	b := copies.NewBatch(parts)
	defer b.Close()
	for round := range byte(3) {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i)*7 + round
		}
		must(t, "copy in", d.CopyIn(from, data, 0))
		before := drivertest.Count("cuMemcpyBatchAsync_v2")
		for i := range uint64(parts) {
			if b.Full() {
				t.Fatalf("full with %d of %d", i, parts)
			}
			b.Add(to+i*n/parts, from+i*n/parts, n/parts)
		}
		if !b.Full() {
			t.Fatal("not full")
		}
		must(t, "copy", d.CopyBatch(b, stream))
		if calls := drivertest.Count("cuMemcpyBatchAsync_v2") - before; calls != 1 {
			t.Errorf("%d calls", calls)
		}
		out := make([]byte, n)
		must(t, "copy out", d.CopyOut(out, to))
		if !bytes.Equal(out, data) {
			t.Fatalf("round %d: bytes differ", round)
		}
	}
	must(t, "copy nothing", d.CopyBatch(b, stream))
	b.Add(to, from, n)
	b.Reset()
	must(t, "copy nothing", d.CopyBatch(b, stream))
	b.Add(to, 4096, n)
	b.Add(to, from, n)
	want(t, "copy what isn't the guest's", d.CopyBatch(b, stream), gpubackend.InvalidValue)
}
