// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/proclimit"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/code"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/memory"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/textures"
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
		o.UUID = chip.DefaultUUID
	}
	return o
}

// unsupported answers what no room does.
type unsupported struct{ gpubackend.Unsupported }

// Device is a software GPU.
type Device struct {
	unsupported
	*output.Buffer
	*contexts.Contexts
	*memory.Memory
	*code.Code
	*textures.Textures

	options   Options
	scheduler *scheduler.Scheduler
	warm      bool // opened ahead of Open

	handles *handles.Table
	grids   atomic.Uint64 // kernels launched

	registered map[uint64]uint64 // host memory: address, size

	sets map[*contexts.Context]*streamSet

	captures    int    // how many go on
	lastCapture uint64 // number of the latest
	charged     int    // bytes that graphs count for

	conditions conditions

	graphMemory    map[uint64]*graphMemory // by address
	graphMemoryUse graphMemoryUse

	held *scheduler.Allowance // bytes kept for copies that wait
}

var _ gpubackend.Driver = (*Device)(nil)

// New returns a device. It takes memory and addresses when it is opened.
func New(o Options) *Device {
	o = o.withDefaults()
	d := &Device{
		options: o, scheduler: scheduler.New(o.HostMemory), handles: handles.New(), Buffer: output.NewBuffer(o.HostMemory),
		registered:  make(map[uint64]uint64),
		graphMemory: make(map[uint64]*graphMemory),
	}
	d.held = d.scheduler.NewAllowance(maxHeld)
	d.sets = make(map[*contexts.Context]*streamSet)
	d.Contexts = contexts.New(contexts.Options{
		Handles: d.handles, Scheduler: d.scheduler, Output: d.Buffer, Memory: d.options.Memory,
		Hooks: contexts.Hooks{Usable: func(c *contexts.Context) { d.Code.FillLibraries(c) }, Ending: d.emptyGraphs, Ended: d.drop, Busy: d.busy},
	})
	d.Memory = memory.New(memory.Options{
		Base: o.Base, Window: o.Window, Bytes: o.Memory, Files: o.Files, Host: o.HostMemory,
		Handles: d.handles, Contexts: d.Contexts, Scheduler: d.scheduler, Lasts: d.lasts,
	})
	d.Code = code.New(code.Options{
		Host: o.HostMemory, Handles: d.handles, Contexts: d.Contexts, Memory: d.Memory, Unloaded: func(m *code.Module) { d.Textures.Unloaded(m) },
	})
	d.Textures = textures.New(textures.Options{
		Host: o.HostMemory, Handles: d.handles, Contexts: d.Contexts, Memory: d.Memory, Code: d.Code,
	})
	return d
}

// Open implements gpubackend.Driver.
func (d *Device) Open(env []string) (*gpubackend.Snapshot, gpubackend.Result) {
	if d.warm {
		d.warm = false
		return d.identity().Snapshot(), gpubackend.Success
	}
	if d.Space() != nil || d.Ended() {
		return nil, gpubackend.InvalidValue
	}
	if !chip.Visible(env, d.options.UUID) {
		return nil, gpubackend.NoDevice
	}
	if d.Memory.Open() != nil {
		return nil, gpubackend.OutOfMemory
	}
	d.Contexts.Start()
	return d.identity().Snapshot(), gpubackend.Success
}

// identity is what the device says of itself.
func (d *Device) identity() *chip.Identity {
	o := &d.options
	return &chip.Identity{
		UUID: o.UUID, Memory: o.Memory, Base: o.Base, Window: o.Window, Multiprocessors: o.Multiprocessors,
	}
}

// Warm implements gpubackend.Driver.
func (d *Device) Warm() gpubackend.Result {
	_, result := d.Open(nil)
	d.warm = result == gpubackend.Success
	return result
}

// Suits implements gpubackend.Driver: the only variable that means something here chooses among devices.
func (d *Device) Suits(env []string) bool { return !d.warm || chip.Visible(env, d.options.UUID) }

// drop has the rooms give back what was in a context whose work has ended.
func (d *Device) drop(c *contexts.Context) {
	d.Memory.Drop(c)
	d.Textures.Drop(c)
	d.Code.Drop(c)
	d.dropStreams(c)
	d.Reclaim()
}

// MemFree implements gpubackend.Driver. What a graph allocated is the graph's to free.
func (d *Device) MemFree(addr uint64) gpubackend.Result {
	if m := d.graphMemory[addr]; m != nil {
		if _, result := d.Current(); result != gpubackend.Success {
			return result
		}
		return d.freeGraphMemory(m)
	}
	return d.Memory.MemFree(addr)
}

// Close implements gpubackend.Driver. Kernels are stopped. Should one not notice in time, its memory stays mapped.
func (d *Device) Close() {
	d.Contexts.Stop()
	if d.Space() == nil {
		return
	}
	d.finishShared()
	d.scheduler.DropHosts(nil)
	if d.scheduler.Wait(closeTimeout) {
		d.Memory.Close()
	}
	d.Contexts.Clear(d.Space() == nil)
	d.handles.Clear()
}
