// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/memory"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// fake is a driver that notes the options of a load, writes its logs, and refuses what is "broken".
type fake struct {
	Calls // what a test doesn't need
	last  uint64
	ids   []uint32
	image cmem.Memory // of a link

	used, limit uint64
	lists       int // of kernels that were asked for
	ending      int
	noted       int
}

// load is one load or the beginning of a link.
func (f *fake) load(image []byte, o *driver.Options) (uint64, gpubackend.Result) {
	f.ids = nil
	words := o.Values.Words()
	for i := range o.Count {
		id := binary.LittleEndian.Uint32(o.IDs.Bytes()[4*i:])
		f.ids = append(f.ids, id)
		for option, text := range map[uint32]string{cudaabi.JITInfoLogBuffer: "info",
			cudaabi.JITErrorLogBuffer: "an error"} {
			if id == option { // its length is the next option
				n := copy(cmem.At(words[i], int(words[i+1])), text)
				binary.LittleEndian.PutUint64(o.Values.Bytes()[8*(i+1):], uint64(n))
			}
		}
	}
	if strings.Contains(string(image), "broken") {
		return 0, gpubackend.InvalidPTX
	}
	f.last++
	return f.last, gpubackend.Success
}

func (f *fake) ModuleLoad(
	image cmem.Memory, o *driver.Options,
) (gpubackend.Module, gpubackend.Result) {
	h, r := f.load(image.Bytes(), o)
	return gpubackend.Module(h), r
}
func (f *fake) LibraryLoad(
	image cmem.Memory, o *driver.Options,
) (gpubackend.Library, gpubackend.Result) {
	h, r := f.load(image.Bytes(), o)
	return gpubackend.Library(h), r
}
func (f *fake) ModuleUnload(gpubackend.Module) gpubackend.Result   { return gpubackend.Success }
func (f *fake) LibraryUnload(gpubackend.Library) gpubackend.Result { return gpubackend.Success }
func (f *fake) LibraryGetKernelCount(gpubackend.Library) (uint64, gpubackend.Result) {
	return 3, gpubackend.Success
}
func (f *fake) LibraryKernels(l gpubackend.Library, n int) (list []uint64, r gpubackend.Result) {
	f.lists++
	for i := range n {
		list = append(list, uint64(l)*10+uint64(i))
	}
	return list, gpubackend.Success
}
func (f *fake) FuncSetAttribute(gpubackend.Function, uint64, uint64) gpubackend.Result {
	return gpubackend.Success
}
func (f *fake) KernelSetAttribute(uint64, uint64, gpubackend.Kernel, uint64) gpubackend.Result {
	return gpubackend.Success
}
func (f *fake) LinkCreate(o *driver.Options) (gpubackend.Link, gpubackend.Result) {
	h, r := f.load(nil, o)
	return gpubackend.Link(h), r
}
func (f *fake) LinkAddData(
	_ gpubackend.Link, _ uint64, data cmem.Memory, n int, _ string, _ *driver.Options,
) gpubackend.Result {
	f.image = cmem.Copied(data.Bytes()[:n], 0)
	return gpubackend.Success
}
func (f *fake) LinkComplete(gpubackend.Link) (addr, bytes uint64, r gpubackend.Result) {
	return f.image.Address(), uint64(f.image.Len()), gpubackend.Success
}
func (f *fake) LinkDestroy(gpubackend.Link) gpubackend.Result {
	f.image.Free()
	return gpubackend.Success
}
func (f *fake) DeviceGetAttribute(attribute int, _ uint64) (int32, gpubackend.Result) {
	if attribute == cudaabi.DeviceAttributeComputeCapabilityMajor {
		return 9, gpubackend.Success
	}
	return 0, gpubackend.Success
}
func (f *fake) PointerAttribute(_, _ uint64) (uint64, gpubackend.Result) {
	return 0, gpubackend.InvalidValue
}

func (f *fake) Note([]byte)                      { f.noted++ }
func (f *fake) Pending() bool                    { return false }
func (f *fake) RegisterEarly() gpubackend.Result { return gpubackend.Success }
func (f *fake) Limit() uint64                    { return f.limit }
func (f *fake) HasRoom(_ int, bytes uint64) bool { return f.used+bytes <= f.limit }
func (f *fake) Uncharge(_ int, bytes uint64)     { f.used -= bytes }
func (f *fake) Recharge(_ int, had, now uint64)  { f.used += now - had }
func (f *fake) Charge(_ int, bytes uint64) bool {
	if !f.HasRoom(0, bytes) {
		return false
	}
	f.used += bytes
	return true
}

func newCode(host *budget.Budget) (*Code, *contexts.Contexts, *fake) {
	f := &fake{}
	var x *Code
	all, list := contextstest.New(func(c *contexts.Context) { x.Ended(c) })
	log := logrus.New()
	log.SetOutput(io.Discard)
	x = New(f, Rooms{
		Contexts: all, GPUs: list, Ranges: copyable.New(f, all), Memory: f,
		Charges: memory.NewCharges(f, all), Host: f,
		Prints: f, CopyOut: func([]byte, uint64) gpubackend.Result { return gpubackend.Unknown },
		Ending: func() { f.ending++ },
	}, Options{Host: host, Log: logrus.NewEntry(log)})
	return x, all, f
}

// image has a variable of so many MiB.
func image(mib uint64) []byte {
	return fmt.Appendf(nil,
		".version 8.4\n.target sm_75\n.global .b8 a[%d];\n.visible .entry empty() {}\n", mib<<20)
}

func pairs(words ...uint64) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// TestOptionsAndLogs: the driver gets numbers as they are and buffers of its own for logs.
func TestOptionsAndLogs(t *testing.T) {
	for _, test := range []struct {
		name        string
		options     []byte
		info, error int // sizes of the logs
		want        gpubackend.Result
		ids         []uint32
		logs        string
	}{
		{"none", nil, 0, 0, 0, nil, "/"},
		{"numbers", pairs(0, 32, 7, 4), 0, 0, 0, []uint32{0, 7}, "/"},
		{"logs", nil, 10, 10, 0, []uint32{3, 4, 5, 6}, "info/an error"},
		{"an error log of four bytes", pairs(7, 3), 0, 4, 0, []uint32{7, 5, 6}, "/an e"},
		{"buffers among the options", pairs(3, 0xdead, 4, 9), 10, 0, 0, []uint32{3, 4}, "info/"},
		{"a pointer", pairs(cudaabi.JITGlobalSymbolNames, 0xdead), 0, 0, gpubackend.NotSupported,
			nil, "/"},
		{"half a pair", pairs(7), 0, 0, gpubackend.InvalidValue, nil, "/"},
	} {
		x, _, f := newCode(nil)
		info, errors := make([]byte, test.info), make([]byte, test.error)
		_, n, m, r := x.ModuleLoadData(image(0), test.options, info, errors)
		if r != test.want || !slices.Equal(f.ids, test.ids) ||
			string(info[:n])+"/"+string(errors[:m]) != test.logs {
			t.Errorf("%s: result %d, options %v, logs %q and %q", test.name, r, f.ids, info[:n],
				errors[:m])
		}
	}
}

// TestImagesCountWhileTheDriverHasThem.
func TestImagesCountWhileTheDriverHasThem(t *testing.T) {
	host := budget.New(1 << 30)
	x, all, f := newCode(host)
	code, before := image(0), host.Used()
	used := func(what string, images int) {
		t.Helper()
		if got := host.Used() - before; got != uint64(images*len(code)) {
			t.Errorf("%s: %d bytes count, want %d images of %d", what, got, images, len(code))
		}
	}
	m, _, _, _ := x.ModuleLoadData(code, nil, nil, nil)
	x.ModuleLoadData(code, nil, nil, nil)
	l, _, _, _ := x.LibraryLoadData(code, nil, nil, nil)
	used("three", 3)
	if _, _, _, r := x.ModuleLoadData(append(image(0), "broken"...), nil, nil,
		nil); r != gpubackend.InvalidPTX {
		t.Errorf("broken: %d", r)
	}
	used("and one that was refused", 3)
	x.ModuleUnload(m)
	used("unloaded", 2)
	all.DevicePrimaryCtxReset(0)
	used("reset", 1)
	x.LibraryUnload(l)
	used("none", 0)
	if f.ending != 2 || f.noted != 4 {
		t.Errorf("told %d times of an end, %d times of code", f.ending, f.noted)
	}
	host.SetLimit(host.Used() + uint64(len(code)))
	if _, _, _, r := x.ModuleLoadData(code, nil, nil, nil); r != gpubackend.OutOfMemory {
		t.Errorf("no memory: %d", r)
	}
}

// TestVariablesOfLibrariesCount in each context, those that begin later too.
func TestVariablesOfLibrariesCount(t *testing.T) {
	x, all, f := newCode(nil)
	f.limit = 100 << 20
	used := func(what string, mib uint64) {
		t.Helper()
		if f.used != mib<<20 {
			t.Errorf("%s: %d MiB count, want %d", what, f.used>>20, mib)
		}
	}
	l, _, _, r := x.LibraryLoadData(image(30), nil, nil, nil)
	if r != gpubackend.Success {
		t.Fatalf("load: %d", r)
	}
	used("in the first context", 30)
	if !x.Room(0) {
		t.Error("no room for a second context")
	}
	h, _ := all.CtxCreate(0, 0)
	second := all.Of(h)
	x.Began(second)
	used("in the second", 60)
	if _, _, _, r := x.LibraryLoadData(image(25), nil, nil, nil); r != gpubackend.OutOfMemory {
		t.Errorf("another, for which only one has room: %d", r)
	}
	used("refused", 60)
	x.ModuleLoadData(image(15), nil, nil, nil)
	used("with a module", 75)
	if x.Room(0) {
		t.Error("room for a third context")
	}
	all.CtxDestroy(h)
	used("without the second context", 45)
	x.LibraryUnload(l)
	used("without the library", 15)
	all.DevicePrimaryCtxReset(0)
	used("in the end", 0)
}

// TestEnumerate asks once for all kernels of a library, until it may have gone.
func TestEnumerate(t *testing.T) {
	x, _, f := newCode(nil)
	for _, l := range []gpubackend.Library{7, 8} {
		for i := range uint64(3) {
			k, r := x.LibraryEnumerateKernels(i, l)
			if r != gpubackend.Success || uint64(k) != uint64(l)*10+i {
				t.Errorf("kernel %d of %d: %d, result %d", i, l, k, r)
			}
		}
	}
	if _, r := x.LibraryEnumerateKernels(3, 8); r != gpubackend.InvalidValue {
		t.Errorf("past the end: %d", r)
	}
	if f.lists != 2 {
		t.Errorf("%d lists for two libraries", f.lists)
	}
	x.LibraryUnload(8)
	if x.LibraryEnumerateKernels(1, 8); f.lists != 3 {
		t.Error("the list outlived its library")
	}
}

// TestLinks: the driver writes the logs until a link ends, and the image is its own.
func TestLinks(t *testing.T) {
	host := budget.New(1 << 30)
	x, _, _ := newCode(host)
	before := host.Used()
	l, r := x.LinkCreate(nil, 10, 10)
	if r != gpubackend.Success || host.Used() == before {
		t.Fatalf("create: %d, %d bytes count", r, host.Used()-before)
	}
	if r := x.LinkImage(l, make([]byte, 5)); r != gpubackend.InvalidValue {
		t.Errorf("image before there is one: %d", r)
	}
	if r := x.LinkAddData(l, 1, []byte("a cubin"), "name", nil); r != gpubackend.Success {
		t.Errorf("add: %d", r)
	}
	n, r := x.LinkComplete(l)
	got := make([]byte, n)
	if r != gpubackend.Success || x.LinkImage(l, got) != gpubackend.Success ||
		string(got) != "a cubin" {
		t.Errorf("image %q, result %d", got, r)
	}
	if r := x.LinkImage(l, got[:3]); r != gpubackend.InvalidValue {
		t.Errorf("part of the image: %d", r)
	}
	info, errors := make([]byte, 10), make([]byte, 10)
	a, b, _ := x.LinkLogs(l, info, errors)
	if string(info[:a]) != "info" || string(errors[:b]) != "an error" {
		t.Errorf("logs %q and %q", info[:a], errors[:b])
	}
	x.LinkDestroy(l)
	if _, r := x.LinkComplete(l); r != gpubackend.InvalidHandle || host.Used() != before {
		t.Errorf("after the end: %d, %d bytes count", r, host.Used()-before)
	}
}

// TestAttributesEndReplays: what was launched before was launched without them.
func TestAttributesEndReplays(t *testing.T) {
	x, _, f := newCode(nil)
	x.FuncSetAttribute(1, 2, 3)
	x.KernelSetAttribute(1, 2, 3, 0)
	if f.ending != 2 {
		t.Errorf("told %d times", f.ending)
	}
}
