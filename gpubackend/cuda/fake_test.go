// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
)

// TestMain builds the fake driver library once.
func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// newDevice opens a device, and makes its primary context current. The test's goroutine stays on
// its thread.
func newDevice(tb testing.TB, options Options) *Device {
	tb.Helper()
	return openDevice(tb, options, nil)
}

// openDevice is newDevice of a device that takes up a layout, before there is a context; nil: it
// has none.
func openDevice(tb testing.TB, options Options, layout io.Reader) *Device {
	tb.Helper()
	d := loadDevice(tb, options)
	if _, r := d.Open(nil); r != gpubackend.Success {
		tb.Fatalf("open: %d", r)
	}
	if layout != nil {
		if err := d.RestoreLayout(layout); err != nil {
			tb.Fatal(err)
		}
	}
	c, r := d.DevicePrimaryCtxRetain(0)
	must(tb, "retain", r)
	must(tb, "set current", d.SetCurrent(c))
	return d
}

// loadDevice makes a device of the fake driver library, and doesn't open it.
func loadDevice(tb testing.TB, options Options) *Device {
	tb.Helper()
	runtime.LockOSThread()
	options.Library = drivertest.Library
	if options.Log == nil {
		quiet := logrus.New()
		quiet.SetOutput(io.Discard)
		options.Log = logrus.NewEntry(quiet)
	}
	d, err := NewDevice(options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		drivertest.Restore()
		d.Close()
		runtime.UnlockOSThread()
	})
	return d
}

func must(tb testing.TB, what string, r gpubackend.Result) {
	tb.Helper()
	want(tb, what, r, gpubackend.Success)
}

func want(tb testing.TB, what string, r, wanted gpubackend.Result) {
	tb.Helper()
	if r != wanted {
		tb.Fatalf("%s: result %d, want %d", what, r, wanted)
	}
}

const twoKernels = `.version 6.5
.target sm_75
.visible .entry vector_add() {}
.visible .entry empty() {}
.visible .entry fault() {}
.visible .entry print() {} // vprintf
`

// load loads twoKernels and returns one of its functions.
func load(tb testing.TB, d *Device, name string) gpubackend.Function {
	tb.Helper()
	return loadText(tb, d, twoKernels, name)
}

// loadSilent is load with code that doesn't print: the worker then needn't wait for its output.
func loadSilent(tb testing.TB, d *Device, name string) gpubackend.Function {
	tb.Helper()
	return loadText(tb, d, strings.Replace(twoKernels, "vprintf", "", 1), name)
}

func loadText(tb testing.TB, d *Device, text, name string) gpubackend.Function {
	tb.Helper()
	m, _, _, r := d.ModuleLoadData([]byte(text), nil, nil, nil)
	must(tb, "load", r)
	f, r := d.ModuleGetFunction(m, name)
	must(tb, "function", r)
	return f
}
