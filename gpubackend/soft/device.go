// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/proclimit"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// Options describe a device. The zero value is a usable one.
type Options struct {
	// Memory is the size of device memory, 2 GiB if 0.
	Memory uint64
	// Base and Window are the addresses of device memory, devmem's own if 0.
	Base, Window uint64
	// Multiprocessors is how many the device has, one for each processor of the host if 0.
	Multiprocessors int
	// Files is how many files pieces of memory may take, half of what the process may have if 0.
	Files int
	// HostMemory is what the guest process may make this one take of the host's memory; nil: any.
	HostMemory *budget.Budget
	// UUID names the device; zero is a fixed one.
	UUID [16]byte
}

// DefaultMemory is the size of device memory when Options name none.
const DefaultMemory = 2 << 30

// closeTimeout is how long Close waits for kernels to notice that they are to end.
const closeTimeout = 10 * time.Second

func (o Options) withDefaults() Options {
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Base == 0 {
		o.Base = devmem.Base
	}
	if o.Window == 0 {
		o.Window = devmem.Window
	}
	if o.Multiprocessors <= 0 {
		o.Multiprocessors = runtime.GOMAXPROCS(0)
	}
	if o.Files <= 0 {
		o.Files = proclimit.Files() / 2
	}
	if o.UUID == ([16]byte{}) {
		o.UUID = defaultUUID
	}
	return o
}

// Device is a software GPU.
type Device struct {
	gpubackend.Unsupported

	options   Options
	scheduler *scheduler.Scheduler
	space     *space // nil before Open and after Close
	output    output
	alive     context.Context // ends with the device
	kill      context.CancelFunc
	warm      bool // opened ahead of Open

	handles  *handles.Table
	contexts []*gpuContext
	primary  *gpuContext
	current  *gpuContext
	green    *greenContext // current part of current; nil for all of it
	grids    atomic.Uint64 // kernels launched

	registered map[uint64]uint64 // host memory: address, size
	freeing    map[uint64]uint64 // device memory given back but perhaps still in use: address, size
	staging    uint64            // bytes given by Staging
	pieces     int               // memory without an address

	captures    int    // how many go on
	lastCapture uint64 // number of the latest
	charged     int    // bytes that graphs count for

	conditions conditions
	objects    objects

	graphMemory    map[uint64]*graphMemory // by address
	graphMemoryUse graphMemoryUse

	freed *scheduler.Returned  // device memory that nothing uses any more
	held  *scheduler.Allowance // bytes kept for copies that wait
}

var _ gpubackend.Driver = (*Device)(nil)

// New returns a device. It takes memory and addresses when it is opened.
func New(o Options) *Device {
	d := &Device{
		options: o.withDefaults(), scheduler: scheduler.New(o.HostMemory), handles: handles.New(),
		registered: make(map[uint64]uint64), freeing: make(map[uint64]uint64),
		graphMemory: make(map[uint64]*graphMemory),
	}
	d.freed, d.held = d.scheduler.NewReturned(), d.scheduler.NewAllowance(maxHeld)
	d.output.memory = o.HostMemory.Open()
	d.alive, d.kill = context.WithCancel(context.Background())
	return d
}

// Open implements gpubackend.Driver.
func (d *Device) Open(env []string) (*gpubackend.Snapshot, gpubackend.Result) {
	if d.warm {
		d.warm = false
		return d.snapshot(), gpubackend.Success
	}
	if d.space != nil || d.alive.Err() != nil {
		return nil, gpubackend.InvalidValue
	}
	if !visible(env, d.options.UUID) {
		return nil, gpubackend.NoDevice
	}
	var err error
	if d.space, err = openSpace(d.options.Base, d.options.Window, d.options.Memory); err != nil {
		return nil, gpubackend.OutOfMemory
	}
	d.space.heap.Meter(d.options.HostMemory)
	d.primary = d.newContext()
	return d.snapshot(), gpubackend.Success
}

// Warm implements gpubackend.Driver.
func (d *Device) Warm() gpubackend.Result {
	_, result := d.Open(nil)
	d.warm = result == gpubackend.Success
	return result
}

// Suits implements gpubackend.Driver: the only variable that means something here chooses among devices.
func (d *Device) Suits(env []string) bool { return !d.warm || visible(env, d.options.UUID) }

// everything returns the tasks after which all work queued so far is done.
func (d *Device) everything() []*scheduler.Task {
	var tasks []*scheduler.Task
	for _, c := range d.contexts {
		tasks = append(tasks, c.lasts()...)
	}
	return tasks
}

// Close implements gpubackend.Driver. Kernels are stopped. Should one not notice in time, its memory stays mapped.
func (d *Device) Close() {
	d.kill()
	if d.space == nil {
		return
	}
	for _, c := range d.contexts {
		c.Fail(gpubackend.ContextIsDestroyed)
	}
	d.finishShared()
	d.scheduler.DropHosts(nil)
	if d.scheduler.Wait(closeTimeout) {
		d.space.window.close()
		d.space = nil
	}
	d.current, d.green, d.contexts = nil, nil, nil
	d.handles.Clear()
}
