// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"runtime"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/proclimit"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/code"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/copies"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs/exec"
	"github.com/paracuda/paracuda/gpubackend/soft/green"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/hostmemory"
	"github.com/paracuda/paracuda/gpubackend/soft/launches"
	"github.com/paracuda/paracuda/gpubackend/soft/memory"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/sharing"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
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
	// Files is how many files segments of memory may take, half of what the process may have if 0.
	Files int
	// HostMemory is what the guest process may make this one take of the host's memory; nil: any.
	HostMemory *budget.Budget
	// Accounts are what device memory counts for, contexts too; nil: nobody shares the GPU.
	Accounts *ledger.Process
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

// Device is a software GPU: its rooms, each of which answers its part of gpubackend.Driver.
type Device struct {
	unsupported
	*output.Buffer
	*contexts.Contexts
	*memory.Memory
	*hostmemory.HostMemory
	*code.Code
	*textures.Textures
	*graphs.Graphs
	*streams.Streams
	*copies.Copies
	*launches.Launches
	*exec.Exec
	*green.Green
	*sharing.Sharing

	options   Options
	scheduler *scheduler.Scheduler
	handles   *handles.Table
	warm      bool // opened ahead of Open
}

var _ gpubackend.Driver = (*Device)(nil)

// New returns a device. It takes memory and addresses when it is opened.
func New(o Options) *Device {
	o = o.withDefaults()
	d := &Device{options: o, scheduler: scheduler.New(o.HostMemory), handles: handles.New()}
	d.Buffer = output.NewBuffer(o.HostMemory)
	d.Contexts = contexts.New(contexts.Options{
		Handles: d.handles, Scheduler: d.scheduler, Output: d.Buffer, Memory: o.Memory,
		Hooks: contexts.Hooks{
			Take:   func() bool { return d.TakeContext() },
			Give:   func() { d.GiveContext() },
			Usable: func(c *contexts.Context) { d.FillLibraries(c) },
			Ending: d.ending, Ended: d.ended,
			Busy: func(g *contexts.Green) bool { return d.Streams.Busy(g) },
		},
	})
	d.Memory = memory.New(memory.Options{
		Base: o.Base, Window: o.Window, Bytes: o.Memory, Files: o.Files, Host: o.HostMemory,
		Account: o.Accounts.Account(ledger.ID(o.UUID)),
		Handles: d.handles, Contexts: d.Contexts, Scheduler: d.scheduler,
		Lasts: func() []*scheduler.Task { return d.Streams.Lasts() },
	})
	d.HostMemory = hostmemory.New(hostmemory.Options{Contexts: d.Contexts, Memory: d.Memory,
		Scheduler: d.scheduler})
	d.newCodeRooms()
	d.newWorkRooms()
	return d
}

// newCodeRooms makes the rooms of what kernels consist of and look at.
func (d *Device) newCodeRooms() {
	host := d.options.HostMemory
	d.Code = code.New(code.Options{
		Host: host, Handles: d.handles, Contexts: d.Contexts, Memory: d.Memory,
		Unloaded: func(m *code.Module) { d.Textures.Unloaded(m) },
	})
	d.Textures = textures.New(textures.Options{
		Host: host, Handles: d.handles, Contexts: d.Contexts, Memory: d.Memory, Code: d.Code,
	})
}

// newWorkRooms makes the rooms of what is queued.
func (d *Device) newWorkRooms() {
	host, sms := d.options.HostMemory, d.options.Multiprocessors
	d.Graphs = graphs.New(graphs.Options{
		Host: host, Handles: d.handles, Contexts: d.Contexts, Memory: d.Memory, Check: d.checkNode,
	})
	d.Streams = streams.New(streams.Options{
		Handles: d.handles, Scheduler: d.scheduler, Contexts: d.Contexts, Memory: d.Memory,
		Graphs: d.Graphs,
	})
	d.Copies = copies.New(copies.Options{
		Contexts: d.Contexts, Scheduler: d.scheduler, Memory: d.Memory, Streams: d.Streams,
		Textures: d.Textures,
	})
	d.Launches = launches.New(launches.Options{
		Host: host, Scheduler: d.scheduler, Memory: d.Memory, Code: d.Code, Textures: d.Textures,
		Streams: d.Streams, Output: d.Buffer, SetCondition: d.Graphs.SetCondition,
		Multiprocessors: sms,
	})
	d.Exec = exec.New(exec.Options{
		Handles: d.handles, Contexts: d.Contexts, Scheduler: d.scheduler, Graphs: d.Graphs,
		Streams: d.Streams,
		Prepare: map[gpubackend.NodeType]exec.Prepare{
			gpubackend.NodeKernel: d.Launches.PrepareNode,
			gpubackend.NodeMemcpy: d.Copies.PrepareCopy,
			gpubackend.NodeMemset: d.Copies.PrepareFill, gpubackend.NodeHost: d.Streams.PrepareHost,
			gpubackend.NodeEventRecord: d.Streams.PrepareEvent,
			gpubackend.NodeEventWait:   d.Streams.PrepareEvent,
			gpubackend.NodeMemOps:      d.Streams.PrepareMemOps,
		},
	})
	d.Green = green.New(green.Options{
		Handles: d.handles, Contexts: d.Contexts, Streams: d.Streams, Multiprocessors: sms,
	})
	d.Sharing = sharing.New(sharing.Options{Contexts: d.Contexts, Memory: d.Memory,
		Streams: d.Streams})
}

// checkNode asks the room that does the work of a node of a graph.
func (d *Device) checkNode(n *gpubackend.Node) gpubackend.Result {
	switch n.Type {
	case gpubackend.NodeKernel:
		return d.Launches.Check(n)
	case gpubackend.NodeMemcpy:
		return d.CheckCopy(n)
	case gpubackend.NodeMemset:
		return d.CheckFill(n)
	case gpubackend.NodeEventWait, gpubackend.NodeEventRecord:
		return d.CheckEvent(n.Event)
	case gpubackend.NodeMemOps:
		return d.CheckMemOps(n)
	case gpubackend.NodeHost:
		return gpubackend.Success
	}
	return gpubackend.NotSupported
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

// total is the memory that the guest may have.
func (d *Device) total() uint64 {
	if bound := d.options.Accounts.Account(ledger.ID(d.options.UUID)).Bound(); bound != 0 {
		return min(d.options.Memory, bound)
	}
	return d.options.Memory
}

// identity is what the device says of itself.
func (d *Device) identity() *chip.Identity {
	o := &d.options
	return &chip.Identity{
		UUID: o.UUID, Memory: d.total(), Base: o.Base, Window: o.Window,
		Multiprocessors: o.Multiprocessors,
	}
}

// Warm implements gpubackend.Driver.
func (d *Device) Warm() gpubackend.Result {
	_, result := d.Open(nil)
	d.warm = result == gpubackend.Success
	return result
}

// Suits implements gpubackend.Driver: the only variable that means something here chooses among
// devices.
func (d *Device) Suits(env []string) bool { return !d.warm || chip.Visible(env, d.options.UUID) }

// ending has the rooms leave a context whose work is going to end.
func (d *Device) ending(c *contexts.Context) {
	d.Streams.Leave(c)
	d.Graphs.Drop(c)
}

// ended has the rooms give back what was in a context whose work has ended.
func (d *Device) ended(c *contexts.Context) {
	d.Memory.Drop(c)
	d.Textures.Drop(c)
	d.Code.Drop(c)
	d.Streams.Drop(c)
	d.Reclaim()
}

// MemFree implements gpubackend.Driver. What a graph allocated is the graph's to free.
func (d *Device) MemFree(addr uint64) gpubackend.Result {
	if !d.HasAllocated(addr) {
		return d.Memory.MemFree(addr)
	}
	if _, result := d.Current(); result != gpubackend.Success {
		return result
	}
	return d.Graphs.Free(addr)
}

// Close implements gpubackend.Driver. Kernels are stopped. Should one not notice in time, its
// memory stays mapped.
func (d *Device) Close() {
	d.Contexts.Stop()
	if d.Space() == nil {
		return
	}
	d.FinishShared()
	d.scheduler.DropHosts(nil)
	if d.scheduler.Wait(closeTimeout) {
		d.Memory.Close()
	}
	d.Contexts.Clear(d.Space() == nil)
	d.handles.Clear()
}
