// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
)

// TestLentMemory has contexts come and go while memory is registered that came before them.
func TestLentMemory(t *testing.T) {
	d := newDevice(t, Options{})
	primary := d.CurrentHandle()
	must(t, "no context", d.SetCurrent(0))
	mem, base := guestBlock(t)
	count := func(what string, n, gone uint64) {
		t.Helper()
		if r, u := drivertest.Count("cuMemHostRegister_v2"),
			drivertest.Count("cuMemHostUnregister"); r != n || u != gone {
			t.Errorf("%s: registered %d times, unregistered %d times; want %d, %d", what, r, u, n,
				gone)
		}
	}
	r, u := drivertest.Count("cuMemHostRegister_v2"), drivertest.Count("cuMemHostUnregister")
	must(t, "register", d.HostRegister(base, uint64(len(mem)), true))
	count("without a context", r, u)
	must(t, "unregister", d.HostUnregister(base, uint64(len(mem))))
	count("unknown", r, u)
	must(t, "register", d.HostRegister(base, uint64(len(mem)), true))
	c, result := d.CtxCreate(0, 0)
	must(t, "create", result)
	must(t, "context", d.SetCurrent(c))
	count("first context", r+1, u)
	must(t, "context", d.SetCurrent(primary))
	count("second context", r+1, u)
	must(t, "destroy", d.CtxDestroy(c))
	must(t, "no context", d.SetCurrent(0))
	must(t, "context", d.SetCurrent(primary)) // the fake has kept the registration, as a driver may
	count("after the first", r+2, u)
	must(t, "no context", d.SetCurrent(0))
	must(t, "unregister", d.HostUnregister(base, uint64(len(mem))))
	count("in the end", r+2, u+1)
	if d.CurrentHandle() != 0 || d.Registered() != 0 {
		t.Error("the context has changed")
	}
	must(t, "context", d.SetCurrent(primary))
}
