// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

const emptyKernel = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() { ret; }\n"

// container packs PTX into a fat binary for an architecture.
func container(arch uint32, text string) []byte {
	payload := append([]byte(text), 0)
	for len(payload)%8 != 0 {
		payload = append(payload, 0)
	}
	le := binary.LittleEndian
	entry := make([]byte, 64)
	le.PutUint16(entry, 1)
	le.PutUint32(entry[4:], 64)
	le.PutUint64(entry[8:], uint64(len(payload)))
	le.PutUint32(entry[28:], arch)
	b := make([]byte, 16)
	le.PutUint32(b, 0xBA55ED50)
	le.PutUint16(b[4:], 1)
	le.PutUint16(b[6:], 16)
	le.PutUint64(b[8:], uint64(len(entry)+len(payload)))
	return append(append(b, entry...), payload...)
}

func TestModuleLoadErrors(t *testing.T) {
	d := newDevice(t, Options{})
	for _, c := range []struct {
		name  string
		image []byte
		want  gpubackend.Result
		log   string
	}{
		{"text", []byte(emptyKernel), gpubackend.Success, ""},
		{"container", container(75, emptyKernel), gpubackend.Success, ""},
		{"empty", nil, gpubackend.InvalidImage, "empty"},
		{"rubbish", []byte("not device code at all"), gpubackend.InvalidImage, "unknown"},
		{"newer device", container(100, emptyKernel), gpubackend.NoBinaryForGPU, "sm_90"},
		{"cubin", []byte("\x7fELF\x02\x01\x01"), gpubackend.NoBinaryForGPU, "sm_90"},
		{"syntax",
			[]byte(".version 8.0\n.target sm_80\n.address_size 64\n" +
				".visible .entry f() { rat %r; }\n"),
			gpubackend.InvalidPTX, "line 4; error"},
		{"newer PTX", []byte(strings.Replace(emptyKernel, "8.0", "9.7", 1)),
			gpubackend.UnsupportedPTXVersion, "9.0"},
	} {
		log := bytes.Repeat([]byte{0xa5}, 200)
		_, _, used, result := d.ModuleLoadData(c.image, nil, nil, log)
		if result != c.want || !bytes.Contains(log[:used], []byte(c.log)) {
			t.Errorf("%s: %d, want %d; log %q", c.name, result, c.want, log[:used])
		}
		if used > 0 && (bytes.IndexByte(log, 0) != int(used)-1 || log[used] != 0xa5) {
			t.Errorf("%s: log of %d bytes not terminated: %q", c.name, used, log)
		}
		_, _, _, result = d.LibraryLoadData(c.image, nil, nil, log[:10])
		if result != c.want || log[9] != 0 && c.want != gpubackend.Success {
			t.Errorf("%s as library: %d, want %d", c.name, result, c.want)
		}
	}
	_, _, _, result := d.ModuleLoadData([]byte(emptyKernel), params(99, 1), nil, nil)
	want(t, result, gpubackend.InvalidValue)
	_, _, _, result = d.ModuleLoadData([]byte(emptyKernel), params(7, 4), nil, nil)
	ok(t, result)
}

func TestInfoLog(t *testing.T) {
	d := newDevice(t, Options{})
	log := make([]byte, 1000)
	_, used, _, result := d.ModuleLoadData([]byte(emptyKernel), nil, log, nil)
	ok(t, result)
	if !strings.Contains(string(log[:used]), "Compiling entry function 'f' for 'sm_90'") {
		t.Errorf("log %q", log[:used])
	}
}

func TestModuleGlobals(t *testing.T) {
	d := newDevice(t, Options{})
	first, second := loadFile(t, d, "testdata/small.ptx"), loadFile(t, d, "testdata/small.ptx")
	total, n, result := d.ModuleGetGlobal(first, "total")
	ok(t, result)
	other, _, result := d.ModuleGetGlobal(second, "total")
	ok(t, result)
	if n != 4 || total == other {
		t.Errorf("%d bytes at %#x and %#x", n, total, other)
	}
	factor, _, result := d.ModuleGetGlobal(first, "factor")
	ok(t, result)
	if got := read(t, d, factor, 4); !bytes.Equal(got, words(3)) {
		t.Errorf("constant %x", got)
	}
	for name, code := range map[string]gpubackend.Result{
		"missing": gpubackend.NotFound, "addTotal": gpubackend.InvalidValue,
		"": gpubackend.InvalidValue,
	} {
		if _, _, result = d.ModuleGetGlobal(first, name); result != code {
			t.Errorf("global %q: %d, want %d", name, result, code)
		}
	}
	for name, code := range map[string]gpubackend.Result{
		"missing": gpubackend.NotFound, "total": gpubackend.NotFound, "": gpubackend.InvalidValue,
	} {
		if _, result = d.ModuleGetFunction(first, name); result != code {
			t.Errorf("function %q: %d, want %d", name, result, code)
		}
	}

	a := alloc(t, d, 8)
	start(t, d, getFunction(t, d, first, "addTotal"), 1, 0, params(a))
	ok(t, d.CopyIn(other, words(100), 0))
	start(t, d, getFunction(t, d, second, "addTotal"), 1, 0, params(a+4))
	synchronize(t, d)
	if got := read(t, d, a, 8); !bytes.Equal(got, words(42, 102)) {
		t.Errorf("totals %x", got)
	}
	want(t, d.MemFree(total), gpubackend.InvalidValue)
	f := getFunction(t, d, first, "addTotal")
	ok(t, d.ModuleUnload(first))
	want(t, d.ModuleUnload(first), gpubackend.InvalidHandle)
	want(t, d.CopyIn(total, words(1), 0), gpubackend.InvalidValue)
	_, result = d.FuncDescribe(f, nil)
	want(t, result, gpubackend.InvalidHandle)
}

func TestDeviceMalloc(t *testing.T) {
	d := newDevice(t, Options{})
	ok(t, d.CtxSetLimit(cudaabi.LimitMallocHeapSize, 1<<20))
	f := getFunction(t, d, loadFile(t, d, "testdata/small.ptx"), "allocate")
	a := alloc(t, d, 8)
	start(t, d, f, 1, 0, params(a))
	synchronize(t, d)
	block := word(read(t, d, a, 8))
	if base, size, found := d.Space().Heap(0).Find(block); !found || size != 1<<20 || base == a {
		t.Errorf("block at %#x", block)
	}
	if got := word(read(t, d, block, 8)); got != a {
		t.Errorf("content %#x, want %#x", got, a)
	}
	want(t, d.CtxSetLimit(cudaabi.LimitMallocHeapSize, 2<<20), gpubackend.InvalidValue)
}

func TestUnloadWaitsForKernels(t *testing.T) {
	d := newDevice(t, Options{})
	m, a := loadFile(t, d, "testdata/small.ptx"), alloc(t, d, 4)
	f := getFunction(t, d, m, "addTotal")
	open := gate(t, d, 0)
	start(t, d, f, 1, 0, params(a))
	ok(t, d.ModuleUnload(m))
	loadFile(t, d, "testdata/small.ptx") // takes other memory
	open()
	synchronize(t, d)
	if got := read(t, d, a, 4); !bytes.Equal(got, words(42)) {
		t.Errorf("total %x", got)
	}
}

func TestLibrary(t *testing.T) {
	d := newDevice(t, Options{})
	image, err := os.ReadFile("testdata/small.ptx")
	if err != nil {
		t.Fatal(err)
	}
	ok(t, d.SetCurrent(0)) // loading needs no context
	l, _, _, result := d.LibraryLoadData(image, nil, nil, nil)
	ok(t, result)
	if n, result := d.LibraryGetKernelCount(l); n != 10 || result != gpubackend.Success {
		t.Errorf("%d kernels, result %d", n, result)
	}
	k, result := d.LibraryGetKernel(l, "addTotal")
	ok(t, result)
	if first, result := d.LibraryEnumerateKernels(0, l); first != k ||
		result != gpubackend.Success {
		t.Errorf("kernel %d, want %d; result %d", first, k, result)
	}
	_, result = d.LibraryEnumerateKernels(10, l)
	want(t, result, gpubackend.InvalidValue)
	_, result = d.LibraryGetKernel(l, "missing")
	want(t, result, gpubackend.NotFound)
	_, result = d.KernelGetFunction(k)
	want(t, result, gpubackend.InvalidContext)
	var seen []string
	for range 2 {
		createContext(t, d)
		a := alloc(t, d, 4)
		f, result := d.KernelGetFunction(k)
		ok(t, result)
		if again, _ := d.KernelGetFunction(k); again != f {
			t.Error("the function changes")
		}
		start(t, d, f, 1, 0, params(a))
		synchronize(t, d)
		addr, _, result := d.LibraryGetGlobal(l, "total")
		ok(t, result)
		seen = append(seen, fmt.Sprint(read(t, d, a, 4), read(t, d, addr, 4)))
		m, result := d.LibraryGetModule(l)
		ok(t, result)
		want(t, d.ModuleUnload(m), gpubackend.NotPermitted)
	}
	if seen[0] != seen[1] || seen[0] != "[42 0 0 0] [42 0 0 0]" {
		t.Errorf("each context has its own globals: %v", seen)
	}
	ok(t, d.LibraryUnload(l))
	want(t, d.LibraryUnload(l), gpubackend.InvalidHandle)
	_, result = d.KernelGetFunction(k)
	want(t, result, gpubackend.InvalidHandle)
}

func TestFunctionRecords(t *testing.T) {
	d := newDevice(t, Options{})
	m := loadFile(t, d, "testdata/small.ptx")
	scale := getFunction(t, d, m, "scale")
	b := make([]byte, 1000)
	n, result := d.FuncDescribe(scale, b)
	ok(t, result)
	var r wire.FunctionRecord
	r.Decode(b)
	if r.Parameters != 2 || r.ParameterBytes != 9 || r.NameBytes != 5 ||
		n != wire.FunctionRecordSize+2*8+5 {
		t.Errorf("record %+v of %d bytes", r, n)
	}
	if got := b[wire.FunctionRecordSize:n]; string(got) != string(words(0, 8, 8, 1))+"scale" {
		t.Errorf("parameters and name %x", got)
	}
	if n2, result := d.FuncDescribe(scale, nil); n2 != n || result != gpubackend.Success {
		t.Errorf("without a buffer: %d bytes, result %d", n2, result)
	}
	ok(t, d.FuncSetAttribute(getFunction(t, d, m, "shared"),
		cudaabi.FuncAttributeMaxDynamicSharedSizeBytes, 100<<10))
	for _, c := range []struct {
		name  string
		index int
		want  int32
	}{
		{"scale", cudaabi.FuncAttributeMaxThreadsPerBlock, 1024},
		{"bounded", cudaabi.FuncAttributeMaxThreadsPerBlock, 64},
		{"exact", cudaabi.FuncAttributeMaxThreadsPerBlock, 64},
		{"shared", cudaabi.FuncAttributeSharedSizeBytes, 1024},
		{"scale", cudaabi.FuncAttributeConstSizeBytes, 4},
		{"scale", cudaabi.FuncAttributePTXVersion, 80},
		{"scale", cudaabi.FuncAttributeBinaryVersion, 90},
		{"shared", cudaabi.FuncAttributeMaxDynamicSharedSizeBytes, 100 << 10},
		{"scale", cudaabi.FuncAttributeMaxDynamicSharedSizeBytes, 48 << 10},
		{"scale", cudaabi.FuncAttributePreferredSharedMemoryCarveout, -1},
		{"scale", cudaabi.FuncAttributeLocalSizeBytes, 0},
	} {
		_, result := d.FuncDescribe(getFunction(t, d, m, c.name), b)
		ok(t, result)
		r.Decode(b)
		if r.Attribute[c.index] != c.want {
			t.Errorf("%s: attribute %d is %d, want %d", c.name, c.index, r.Attribute[c.index],
				c.want)
		}
	}
}

func TestSetAttributes(t *testing.T) {
	d := newDevice(t, Options{})
	f := getFunction(t, d, loadFile(t, d, "testdata/small.ptx"), "scale")
	for _, c := range []struct {
		name             string
		attribute, value uint64
		want             gpubackend.Result
	}{
		{"dynamic", cudaabi.FuncAttributeMaxDynamicSharedSizeBytes, 1000, gpubackend.Success},
		{"dynamic negative", cudaabi.FuncAttributeMaxDynamicSharedSizeBytes, 1<<64 - 1,
			gpubackend.InvalidValue},
		{"dynamic too much", cudaabi.FuncAttributeMaxDynamicSharedSizeBytes,
			chip.SharedPerBlockOptIn + 1, gpubackend.InvalidValue},
		{"carveout", cudaabi.FuncAttributePreferredSharedMemoryCarveout, 100, gpubackend.Success},
		{"carveout default", cudaabi.FuncAttributePreferredSharedMemoryCarveout, 1<<64 - 1,
			gpubackend.Success},
		{"carveout too much", cudaabi.FuncAttributePreferredSharedMemoryCarveout, 101,
			gpubackend.InvalidValue},
		{"read-only", cudaabi.FuncAttributeNumRegs, 1, gpubackend.InvalidValue},
		{"unknown", 16, 1, gpubackend.InvalidValue},
		{"cluster", cudaabi.FuncAttributeRequiredClusterWidth, 2, gpubackend.NotSupported},
		{"no cluster", cudaabi.FuncAttributeRequiredClusterWidth, 0, gpubackend.Success},
		{"non-portable", cudaabi.FuncAttributeNonPortableClusterSizeAllowed, 1, gpubackend.Success},
		{"policy", cudaabi.FuncAttributeClusterSchedulingPolicyPreference, 3,
			gpubackend.InvalidValue},
	} {
		if got := d.FuncSetAttribute(f, c.attribute, c.value); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	ok(t, d.FuncSetCacheConfig(f, 1))
	want(t, d.FuncSetCacheConfig(f, 4), gpubackend.InvalidValue)
}

func TestKernelAttributesReachFunctions(t *testing.T) {
	d := newDevice(t, Options{})
	l, _, _, result := d.LibraryLoadData([]byte(emptyKernel), nil, nil, nil)
	ok(t, result)
	k, result := d.LibraryGetKernel(l, "f")
	ok(t, result)
	f, result := d.KernelGetFunction(k)
	ok(t, result)
	dynamic := func(describe func([]byte) (uint64, gpubackend.Result)) int32 {
		b := make([]byte, 200)
		_, result := describe(b)
		ok(t, result)
		var r wire.FunctionRecord
		r.Decode(b)
		return r.Attribute[cudaabi.FuncAttributeMaxDynamicSharedSizeBytes]
	}
	function := func(b []byte) (uint64, gpubackend.Result) { return d.FuncDescribe(f, b) }
	kernel := func(b []byte) (uint64, gpubackend.Result) { return d.KernelDescribe(k, b) }
	want(t, d.KernelSetAttribute(cudaabi.FuncAttributeMaxDynamicSharedSizeBytes, 1, k, 1),
		gpubackend.InvalidDevice)
	ok(t, d.KernelSetAttribute(cudaabi.FuncAttributeMaxDynamicSharedSizeBytes, 60000, k, 0))
	if dynamic(function) != 60000 || dynamic(kernel) != 60000 {
		t.Errorf("function %d, kernel %d", dynamic(function), dynamic(kernel))
	}
	ok(t, d.FuncSetAttribute(f, cudaabi.FuncAttributeMaxDynamicSharedSizeBytes, 70000))
	ok(t, d.KernelSetAttribute(cudaabi.FuncAttributeMaxDynamicSharedSizeBytes, 50000, k, 0))
	if dynamic(function) != 70000 || dynamic(kernel) != 50000 {
		t.Errorf("function %d, kernel %d", dynamic(function), dynamic(kernel))
	}
	ok(t, d.KernelSetCacheConfig(k, 1, 0))
}

func TestOccupancy(t *testing.T) {
	d := newDevice(t, Options{})
	m := loadFile(t, d, "testdata/small.ptx")
	f, shared := getFunction(t, d, m, "bounded"), getFunction(t, d, m, "shared")
	for _, c := range []struct {
		name                    string
		f                       gpubackend.Function
		threads, dynamic, flags uint64
		blocks                  uint64
		want                    gpubackend.Result
	}{
		{"by blocks", f, 32, 0, 0, 32, gpubackend.Success},
		{"by threads", shared, 1024, 0, 0, 2, gpubackend.Success},
		{"by shared", shared, 32, 40 << 10, 0, 5, gpubackend.Success},
		{"too much shared", shared, 32, 48 << 10, 0, 0, gpubackend.Success},
		{"too many threads", f, 65, 0, 0, 0, gpubackend.Success},
		{"flag", f, 64, 0, 1, 32, gpubackend.Success},
		{"unknown flag", f, 64, 0, 2, 0, gpubackend.InvalidValue},
		{"no threads", f, 0, 0, 0, 0, gpubackend.InvalidValue},
		{"odd threads", shared, 33, 0, 0, 32, gpubackend.Success},
		{"65 threads", shared, 65, 0, 0, 21, gpubackend.Success},
	} {
		n, result := d.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(c.f, c.threads, c.dynamic,
			c.flags)
		if n != c.blocks || result != c.want {
			t.Errorf("%s: %d blocks, result %d", c.name, n, result)
		}
	}
	for _, c := range []struct {
		name            string
		blocks, threads uint64
		bytes           uint64
		want            gpubackend.Result
	}{
		{"one", 1, 32, 226 << 10, gpubackend.Success},
		{"two", 2, 1024, 112 << 10, gpubackend.Success},
		{"more than fit", 3, 1024, 0, gpubackend.InvalidValue},
		{"none", 0, 32, 0, gpubackend.InvalidValue},
	} {
		n, result := d.OccupancyAvailableDynamicSMemPerBlock(shared, c.blocks, c.threads)
		if n != c.bytes || result != c.want {
			t.Errorf("%s: %d bytes, result %d", c.name, n, result)
		}
	}
}
