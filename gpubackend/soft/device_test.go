// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
)

var (
	ok   = resulttest.OK
	wait = resulttest.Wait
	want = resulttest.Want
)

const testWindow = 16 << 30

// windows counts devices, to give each addresses of its own.
var windows atomic.Uint64

// nextBase returns addresses that none of the 1023 devices before has.
func nextBase() uint64 { return devmem.Base + devmem.Window + windows.Add(1)%1024*testWindow }

// newDevice opens a device with a small memory; its primary context is the current one.
func newDevice(t testing.TB, o Options) *Device {
	t.Helper()
	o.Base = nextBase()
	o.Window = testWindow
	if o.Memory == 0 {
		o.Memory = 256 << 20
	}
	d := New(o)
	if _, result := d.Open(nil); result != gpubackend.Success {
		t.Fatalf("Open: %d", result)
	}
	t.Cleanup(d.Close)
	primary(t, d)
	return d
}

// primary makes the primary context the current one.
func primary(t testing.TB, d *Device) gpubackend.Context {
	t.Helper()
	c, result := d.DevicePrimaryCtxRetain(0)
	ok(t, result)
	ok(t, d.SetCurrent(c))
	return c
}

func alloc(t testing.TB, d *Device, n uint64) uint64 {
	t.Helper()
	addr, result := d.MemAlloc(n)
	ok(t, result)
	return addr
}

func newStream(t testing.TB, d *Device, flags uint64) gpubackend.Stream {
	t.Helper()
	s, result := d.StreamCreateWithPriority(flags, 0)
	ok(t, result)
	return s
}

func newEvent(t testing.TB, d *Device) gpubackend.Event {
	t.Helper()
	e, result := d.EventCreate(0)
	ok(t, result)
	return e
}

func synchronize(t testing.TB, d *Device) {
	t.Helper()
	ok(t, wait(t, d.ContextQuery))
}

func read(t testing.TB, d *Device, addr, n uint64) []byte {
	t.Helper()
	b := make([]byte, n)
	ok(t, d.CopyOut(b, addr))
	return b
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func words(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// gate stops a stream until the function that it returns is called.
func gate(t testing.TB, d *Device, s gpubackend.Stream) func() {
	t.Helper()
	release, result := d.HostFunc(s, 1, func(uint64) {})
	ok(t, result)
	return release
}

func TestOpen(t *testing.T) {
	d := New(Options{Base: nextBase(), Window: testWindow, Memory: 1 << 30, Multiprocessors: 3})
	if _, result := d.MemAlloc(1); result != gpubackend.NotInitialized {
		t.Errorf("MemAlloc before Open: %d", result)
	}
	s, result := d.Open(nil)
	ok(t, result)
	defer d.Close()
	if s.Devices != 1 || len(s.Device) != 1 || s.DriverVersion != 13000 ||
		s.WindowBytes != testWindow {
		t.Errorf("inventory %+v", s.Inventory)
	}
	dev := &s.Device[0]
	if name, _, _ := bytes.Cut(dev.Name[:], []byte{0}); string(name) != chip.Name ||
		dev.TotalMemory != 1<<30 {
		t.Errorf("device %q with %d bytes", name, dev.TotalMemory)
	}
	for _, c := range []struct{ attribute, value, result int32 }{
		{0, 0, 1}, {1, 1024, 0}, {16, 3, 0}, {41, 1, 0}, {75, 9, 0}, {76, 0, 0}, {83, 1, 0},
		{88, 0, 0}, {89, 1, 0}, {91, 1, 0},
		{101, 0, 0}, {102, 1, 0}, {103, 1, 0}, {104, 0, 0}, {115, 1, 0}, {143, 0, 0}, {144, 0, 1},
		{159, 0, 1},
	} {
		if v, r := dev.Attribute[c.attribute], dev.AttributeResult[c.attribute]; v != c.value ||
			r != c.result {
			t.Errorf("attribute %d: %d, result %d", c.attribute, v, r)
		}
	}
	_, result = d.Open(nil)
	want(t, result, gpubackend.InvalidValue)
}

func TestInvisibleDevice(t *testing.T) {
	d := New(Options{})
	_, result := d.Open([]string{"CUDA_VISIBLE_DEVICES="})
	want(t, result, gpubackend.NoDevice)
	d.Close()
}

func TestCloseEndsEverything(t *testing.T) {
	d := newDevice(t, Options{})
	addr := alloc(t, d, 4096)
	gate(t, d, 0)
	ok(t, d.MemsetD8Async(addr, 1, 4096, 0))
	d.Close()
	want(t, d.MemFree(addr), gpubackend.NotInitialized)
	d.Close()
}
