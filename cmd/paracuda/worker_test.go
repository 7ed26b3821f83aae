// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// TestSoftMemoryIsBounded: memory=SIZE bounds a program's memory on the software GPU, too.
func TestSoftMemoryIsBounded(t *testing.T) {
	for _, x := range []struct{ soft, limit, want uint64 }{
		{2 << 30, 0, 2 << 30}, {2 << 30, 1 << 30, 1 << 30}, {1 << 30, 3 << 30, 1 << 30},
	} {
		if n := softMemory(handover.Policy{SoftMemory: x.soft, MemoryLimit: x.limit}); n != x.want {
			t.Errorf("soft-memory=%d, memory=%d: %d, not %d", x.soft, x.limit, n, x.want)
		}
	}
	d, err := newDriver(gpuSoft, handover.Policy{SoftMemory: 64 << 20, MemoryLimit: 32 << 20}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if _, r := d.Open(nil); r != gpubackend.Success {
		t.Fatal(r)
	}
	c, r := d.DevicePrimaryCtxRetain(0)
	if r != gpubackend.Success || d.SetCurrent(c) != gpubackend.Success {
		t.Fatal(r)
	}
	if _, total, r := d.MemGetInfo(); r != gpubackend.Success || total != 32<<20 {
		t.Errorf("there are %d bytes, %v", total, r)
	}
}
