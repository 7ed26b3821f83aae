// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"os"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// loadWarm loads the fake driver, and warms it. The process has no CUDA variables but those in
// host, each a name and its value.
func loadWarm(t *testing.T, host ...string) *Device {
	t.Helper()
	for _, name := range []string{"CUDA_MODULE_LOADING", "CUDA_VISIBLE_DEVICES",
		"CUDA_DEVICE_MAX_CONNECTIONS"} {
		t.Setenv(name, "") // which puts back what was there
		os.Unsetenv(name)
	}
	for i := 0; i < len(host); i += 2 {
		os.Setenv(host[i], host[i+1])
	}
	d := loadDevice(t, Options{})
	must(t, "warm", d.Warm(0))
	return d
}

// primaryCalls counts the calls of those functions of the fake that make and end primary contexts.
func primaryCalls(d *Device) (init, retain, release uint64) {
	return drivertest.Count("cuInit"), drivertest.Count("cuDevicePrimaryCtxRetain"),
		drivertest.Count("cuDevicePrimaryCtxRelease_v2")
}

// TestWarmIsUsedOnce: the first Retain gets the context that Warm made, and the next one asks the
// driver for another.
func TestWarmIsUsedOnce(t *testing.T) {
	d := loadWarm(t)
	init, retain, release := primaryCalls(d)
	s, r := d.Open(nil)
	must(t, "open", r)
	if s.Devices != 1 || len(s.Device) != 1 || s.WindowBytes != devmem.Window {
		t.Errorf("inventory of %d devices, window of %d bytes", s.Devices, s.WindowBytes)
	}
	c, r := d.DevicePrimaryCtxRetain(0)
	must(t, "retain", r)
	must(t, "set current", d.SetCurrent(c))
	if a, b, _ := primaryCalls(d); a != init || b != retain {
		t.Errorf("%d calls of cuInit and %d of Retain after Warm", a-init, b-retain)
	}
	must(t, "release", d.DevicePrimaryCtxRelease(0))
	if _, _, n := primaryCalls(d); n != release+1 {
		t.Errorf("%d calls of Release, want 1", n-release)
	}
	_, r = d.DevicePrimaryCtxRetain(0)
	must(t, "retain again", r)
	if _, n, _ := primaryCalls(d); n != retain+1 {
		t.Errorf("%d more calls of Retain, want 1", n-retain)
	}
}

// TestWarmContextGoes where the process makes a context of its own, or resets the device.
func TestWarmContextGoes(t *testing.T) {
	for _, tt := range []struct {
		name string
		call func(*Device) gpubackend.Result
	}{
		{"own context", func(d *Device) gpubackend.Result {
			_, r := d.CtxCreate(0, 0)
			return r
		}},
		{"reset", func(d *Device) gpubackend.Result { return d.DevicePrimaryCtxReset(0) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := loadWarm(t)
			_, retain, release := primaryCalls(d)
			_, r := d.Open(nil)
			must(t, "open", r)
			must(t, tt.name, tt.call(d))
			must(t, tt.name, tt.call(d))
			if _, _, n := primaryCalls(d); n != release+1 {
				t.Errorf("%d calls of Release, want 1", n-release)
			}
			_, r = d.DevicePrimaryCtxRetain(0)
			must(t, "retain", r)
			if _, n, _ := primaryCalls(d); n != retain+1 {
				t.Errorf("%d calls of Retain, want 1", n-retain)
			}
		})
	}
}

// TestSuits: a program needs another worker if its variables would have made the driver start
// differently from the warm one.
func TestSuits(t *testing.T) {
	for _, tt := range []struct {
		name string
		host []string // variables of the host: name, value
		env  []string
		want bool
	}{
		{"none", nil, nil, true},
		{"default", nil, []string{"CUDA_MODULE_LOADING=LAZY"}, true},
		{"not the default", nil, []string{"CUDA_MODULE_LOADING=EAGER"}, false},
		{"read by the driver", nil, []string{"CUDA_DEVICE_MAX_CONNECTIONS=1"}, false},
		{"as the host", []string{"CUDA_DEVICE_MAX_CONNECTIONS", "1"},
			[]string{"CUDA_DEVICE_MAX_CONNECTIONS=1"}, true},
		{"other than the host", []string{"CUDA_MODULE_LOADING", "EAGER"},
			[]string{"CUDA_MODULE_LOADING=LAZY"}, false},
		{"last one counts", nil, []string{"CUDA_MODULE_LOADING=EAGER", "CUDA_MODULE_LOADING=LAZY"},
			true},
		{"not passed on", nil,
			[]string{"CUDA_HOME=/x", "CUDA_LAUNCH_BLOCKING=1", "CUDA_CACHE_PATH=/x", "nonsense"},
			true},
		{"none of its values", nil,
			[]string{"CUDA_DEVICE_MAX_CONNECTIONS=33", "CUDA_MODULE_LOADING=DEFAULT",
				"CUDA_SCALE_LAUNCH_QUEUES=1x"}, true},
		{"devices", nil, []string{"CUDA_VISIBLE_DEVICES=0"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := loadWarm(t, tt.host...)
			if got := d.Suits(tt.env); got != tt.want {
				t.Errorf("suits: %v, want %v", got, tt.want)
			}
			if _, r := d.Open(nil); r != gpubackend.Success || !d.Suits(tt.env) {
				t.Error("a device that isn't warm suits everybody")
			}
		})
	}
}
