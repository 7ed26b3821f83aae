// SPDX-License-Identifier: Apache-2.0

package hostmemory

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
)

// fake is a driver that knows what is registered.
type fake struct {
	known map[uint64]bool
	log   []string
}

func (f *fake) CtxSynchronize() gpubackend.Result {
	f.log = append(f.log, "wait")
	return gpubackend.Success
}

func (f *fake) MemHostRegister(addr, _ uint64, writable bool) gpubackend.Result {
	f.log = append(f.log, fmt.Sprintf("register %d %t", addr, writable))
	if f.known[addr] {
		return gpubackend.HostMemoryAlreadyRegistered
	}
	f.known[addr] = true
	return gpubackend.Success
}

func (f *fake) MemHostUnregister(addr uint64) gpubackend.Result {
	f.log = append(f.log, fmt.Sprintf("unregister %d", addr))
	if !f.known[addr] {
		return gpubackend.HostMemoryNotRegistered
	}
	delete(f.known, addr)
	return gpubackend.Success
}

func (f *fake) take() string {
	s := strings.Join(f.log, ", ")
	f.log = nil
	return s
}

type room struct {
	*HostMemory
	fake      *fake
	x         *contexts.Contexts
	capturing bool
}

func newRoom() *room {
	r := &room{fake: &fake{known: map[uint64]bool{}}}
	x, list := contextstest.New(func(c *contexts.Context) { r.Ended(c) })
	log := logrus.New()
	log.SetOutput(io.Discard)
	r.x = x
	r.HostMemory = New(r.fake, x, list, copyable.New(nil, x), func() bool { return r.capturing },
		logrus.NewEntry(log))
	return r
}

// reaches says whether copies may name memory.
func (r *room) reaches(addr uint64, write bool) bool { return r.ranges.Host.Cover(addr, 8, write) }

func TestRegister(t *testing.T) {
	r := newRoom()
	if result := r.HostRegister(100, 50, false); result != gpubackend.Success ||
		r.fake.take() != "register 100 false" {
		t.Errorf("register: %d", result)
	}
	if !r.reaches(120, false) || r.reaches(120, true) || r.reaches(145, false) {
		t.Error("copies may name something else")
	}
	if result := r.HostRegister(100, 10, true); result != gpubackend.HostMemoryAlreadyRegistered ||
		r.reaches(100, true) {
		t.Errorf("register again: %d", result)
	}
	r.fake.take()
	r.x.Current().Work.Touch(2)
	r.capturing = true
	if r.HostUnregister(100, 50); r.fake.take() != "unregister 100" {
		t.Error("waited during a capture")
	}
	r.capturing = false
	r.HostRegister(100, 50, true)
	r.fake.take()
	if r.HostUnregister(100, 50); r.fake.take() != "wait, unregister 100" ||
		r.reaches(120, false) || r.Registered() != 0 {
		t.Error("didn't wait for work, or copies may name what is gone")
	}
	if result := r.HostPageable(500, 50); result != gpubackend.Success || !r.reaches(500, true) ||
		r.fake.take() != "" {
		t.Errorf("pageable: %d", result)
	}
}

// TestReadOnlyOnAGPUThatCannot register memory read-only: kernels could write it, so it is refused.
func TestReadOnlyOnAGPUThatCannot(t *testing.T) {
	r := newRoom()
	h, _ := r.x.DevicePrimaryCtxRetain(1)
	r.x.SetCurrent(h)
	if result := r.HostRegister(100, 50, false); result != gpubackend.NotSupported ||
		r.reaches(100, false) {
		t.Errorf("result %d", result)
	}
	if result := r.HostRegister(100, 50, true); result != gpubackend.Success {
		t.Errorf("to be written: %d", result)
	}
}

// TestLent: memory is registered once there is a context, and anew in another when that has ended.
func TestLent(t *testing.T) {
	r := newRoom()
	r.x.SetCurrent(0)
	r.HostRegister(100, 50, true)
	if r.fake.take() != "" || !r.Pending() || !r.reaches(100, true) {
		t.Error("registered without a context")
	}
	c, _ := r.x.CtxCreate(0, 0)
	r.x.SetCurrent(c)
	if r.RegisterEarly(); r.fake.take() != "register 100 true" || r.Pending() {
		t.Error("not registered in the first context")
	}
	if r.RegisterEarly(); r.fake.take() != "" {
		t.Error("registered again")
	}
	r.x.CtxDestroy(c)
	if !r.Pending() {
		t.Error("the driver is taken to know it")
	}
	r.x.SetCurrent(contextstest.Primary)
	// The driver may have kept the registration.
	if result := r.RegisterEarly(); result != gpubackend.Success || r.Pending() {
		t.Errorf("result %d", result)
	}
	r.fake.take()
	r.x.SetCurrent(0)
	if r.HostUnregister(100, 50); r.fake.take() != "unregister 100" || r.x.CurrentHandle() != 0 {
		t.Error("not unregistered in its context")
	}
	r.HostRegister(100, 50, true)
	if r.HostUnregister(100, 50); r.fake.take() != "" {
		t.Error("the driver heard of what it never knew")
	}
}
