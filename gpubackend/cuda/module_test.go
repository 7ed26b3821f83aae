// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

func options(pairs ...uint64) (b []byte) {
	for _, v := range pairs {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func TestLoadOptions(t *testing.T) {
	for _, test := range []struct {
		name    string
		options []byte
		want    gpubackend.Result
		passed  []uint64
	}{
		{"none", nil, 0, nil},
		{"numbers", options(0, 32, 7, 4), 0, []uint64{0, 32, 7, 4}},
		{"logs and time are parameters of their own",
			options(2, 1, 3, 0xdead, 4, 100, 5, 0xdead, 6, 100, 7, 3), 0, []uint64{7, 3}},
		{"pointer to names", options(17, 0xdead), gpubackend.NotSupported, nil},
		{"pointer to kernels' names", options(25, 0xdead), gpubackend.NotSupported, nil},
		{"unknown", options(34, 1), gpubackend.InvalidValue, nil},
		{"large id", options(1<<32, 1), gpubackend.InvalidValue, nil},
		{"half a pair", options(7), gpubackend.InvalidValue, nil},
		{"too many", options(make([]uint64, 2*64+2)...), gpubackend.InvalidValue, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDevice(t, Options{})
			_, _, _, r := d.ModuleLoadData([]byte(twoKernels), test.options, nil, nil)
			want(t, "load", r, test.want)
			if r != gpubackend.Success {
				return
			}
			if got := drivertest.Options(); !slices.Equal(got, test.passed) {
				t.Errorf("options %d passed, want %d", got, test.passed)
			}
		})
	}
}

func TestLoadLogs(t *testing.T) {
	d := newDevice(t, Options{})
	info, errors := make([]byte, 100), make([]byte, 8)
	_, infoUsed, errorUsed, r := d.ModuleLoadData([]byte(twoKernels+"broken"), options(7, 4), info,
		errors)
	want(t, "load", r, gpubackend.InvalidPTX)
	if got := string(info[:infoUsed]); got != "ptxas info\x00" {
		t.Errorf("info log %q", got)
	}
	if got := string(errors[:errorUsed]); got != "ptxas er" {
		t.Errorf("error log %q", got)
	}
	_, infoUsed, errorUsed, r = d.LibraryLoadData([]byte(twoKernels+"broken"), nil, nil, errors)
	want(t, "load a library", r, gpubackend.InvalidPTX)
	if infoUsed != 0 || errorUsed != 8 {
		t.Errorf("logs of %d and %d bytes", infoUsed, errorUsed)
	}
}

func TestDescribe(t *testing.T) {
	d := newDevice(t, Options{})
	f := load(t, d, "vector_add")
	record := make([]byte, 200)
	n, r := d.FuncDescribe(f, record)
	must(t, "describe", r)
	var head wire.FunctionRecord
	head.Decode(record)
	if head.Parameters != 4 || head.ParameterBytes != 28 || head.Attribute[0] != 1024 ||
		head.Attribute[15] != -15 {
		t.Errorf("record %+v", head)
	}
	layout := record[wire.FunctionRecordSize:n]
	for i, v := range []uint32{0, 8, 8, 8, 16, 8, 24, 4} {
		if got := binary.LittleEndian.Uint32(layout[4*i:]); got != v {
			t.Errorf("layout word %d is %d, want %d", i, got, v)
		}
	}
	if name := string(layout[32:]); name != "vector_add" {
		t.Errorf("name %q", name)
	}
	need, r := d.FuncDescribe(f, record[:n-1])
	must(t, "describe into too little", r)
	if need != n {
		t.Errorf("needs %d, want %d", need, n)
	}
}

func TestEnumerateKernels(t *testing.T) {
	d := newDevice(t, Options{})
	lib, _, _, r := d.LibraryLoadData([]byte(twoKernels), nil, nil, nil)
	must(t, "load", r)
	count, r := d.LibraryGetKernelCount(lib)
	must(t, "count", r)
	seen := map[gpubackend.Kernel]bool{}
	for i := range count {
		k, r := d.LibraryEnumerateKernels(i, lib)
		must(t, "enumerate", r)
		_, r = d.KernelDescribe(k, make([]byte, 200))
		must(t, "describe", r)
		seen[k] = true
	}
	if len(seen) != 4 || drivertest.Count("cuLibraryEnumerateKernels") == 0 {
		t.Errorf("%d kernels", len(seen))
	}
	_, r = d.LibraryEnumerateKernels(count, lib)
	want(t, "past the end", r, gpubackend.InvalidValue)
	_, r = d.LibraryGetKernel(lib, strings.Repeat("x", 3*driver.TextCapacity))
	want(t, "a long name", r, gpubackend.NotFound)
}
