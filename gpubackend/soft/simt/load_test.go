// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// vanished is memory that is reported as valid, but not mapped.
type vanished struct{}

func (vanished) Lookup(addr uint64) (base, end uint64, writable, ok bool) {
	return addr &^ 0xfffff, addr&^0xfffff + 0x100000, true, true
}

func TestVanishedMemory(t *testing.T) {
	t.Parallel()
	d := newTest(t, "basic")
	l := d.launch("vectorAdd", linear(4), linear(64), uint64(0x200000000000),
		uint64(0x200000000000), uint64(0x200000000000), int32(256))
	l.Memory = vanished{}
	wantFault(t, l, cudaabi.ErrorIllegalAddress)
}

func TestKernelInfo(t *testing.T) {
	t.Parallel()
	d := newTest(t, "basic")
	var names []string
	for _, k := range d.prog.Kernels() {
		names = append(names, k.Name)
	}
	want := "histogram matmul reduceShuffle scanBlock stencil vectorAdd"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("kernels %s, want %s", got, want)
	}
	k := d.prog.Kernel("matmul")
	if k.StaticShared != 2048 || k.ParamSize != 28 || k.Registers < 16 || k.Registers > 255 ||
		k.LocalSize != 0 {
		t.Errorf("kernel %+v", k)
	}
	if k := d.prog.Kernel("scanBlock"); k.StaticShared != 0 {
		t.Errorf("scanBlock has %d bytes of static shared memory", k.StaticShared)
	}
	if err := d.prog.Link(nil); err == nil {
		t.Error("linked twice")
	}
	if err := (&Launch{}).Run(context.Background()); err == nil {
		t.Error("launch without a kernel")
	}
}
