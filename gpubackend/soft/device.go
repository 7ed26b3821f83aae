// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"runtime"
	"slices"
	"strings"
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
	// GPUs is how many there are, one if 0. Each may reach the memory of all.
	GPUs int
	// Apart says that none reaches the memory of another, as on hosts whose GPUs can't: copies go
	// from one to the other all the same. It is for tests.
	Apart bool
	// Memory is the size of each GPU's memory, 2 GiB if 0.
	Memory uint64
	// Base is the first address of device memory, Window how many addresses each GPU has; devmem's
	// own if 0.
	Base, Window uint64
	// Multiprocessors is how many the device has, one for each processor of the host if 0.
	Multiprocessors int
	// Files is how many files segments of memory may take, half of what the process may have if 0.
	Files int
	// HostMemory bounds what the guest process may make this one take of the host's memory; nil: no
	// bound.
	HostMemory *budget.Budget
	// Accounts count device memory and contexts; nil: nobody shares the GPU.
	Accounts *ledger.Process
	// UUID is that of the first GPU; zero: a fixed one.
	UUID [16]byte
}

// DefaultMemory is the size of device memory when Options name none.
const DefaultMemory = 2 << 30

// closeTimeout is how long Close waits for kernels to notice that they are to end.
const closeTimeout = 10 * time.Second

// mappingsPerFile leaves most of a process's mappings to others: each file takes two, if it splits
// the window.
const mappingsPerFile = 10

func (o Options) withDefaults() Options {
	if o.GPUs <= 0 {
		o.GPUs = 1
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Base == 0 {
		o.Base = devmem.Base
	}
	if o.Window == 0 {
		o.Window = devmem.WindowOf(o.GPUs)
	}
	if o.Multiprocessors <= 0 {
		o.Multiprocessors = runtime.GOMAXPROCS(0)
	}
	if o.Files <= 0 {
		o.Files = min(proclimit.WorkerFiles()/2, proclimit.Mappings()/mappingsPerFile)
	}
	if o.UUID == ([16]byte{}) {
		o.UUID = chip.DefaultUUID
	}
	return o
}

// unsupported answers the calls that no room does.
type unsupported struct{ gpubackend.Unsupported }

// Device is software GPUs: their rooms, each of which answers its part of gpubackend.Driver.
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
	gpus      []int // those that the guest process sees, in its order
	warm      bool  // opened ahead of Open
}

var _ gpubackend.Driver = (*Device)(nil)

// New returns a device. It takes memory and addresses when it is opened.
func New(o Options) *Device {
	o = o.withDefaults()
	d := &Device{options: o, scheduler: scheduler.New(o.HostMemory), handles: handles.New()}
	d.Buffer = output.NewBuffer(o.HostMemory)
	d.Contexts = contexts.New(contexts.Options{
		Handles: d.handles, Scheduler: d.scheduler, Output: d.Buffer, Memory: o.Memory,
		Apart: o.Apart,
		Hooks: contexts.Hooks{
			Take:   func(gpu int) bool { return d.TakeContext(gpu) },
			Give:   func(gpu int) { d.GiveContext(gpu) },
			Usable: func(c *contexts.Context) { d.FillLibraries(c) },
			Ending: d.ending, Ended: d.ended,
			Connect: func(from, to int, reaches bool) { d.Memory.Connect(from, to, reaches) },
			Busy:    func(g *contexts.Green) bool { return d.Streams.Busy(g) },
		},
	})
	d.Memory = memory.New(memory.Options{
		Base: o.Base, Window: o.Window, Files: o.Files, Host: o.HostMemory,
		Handles: d.handles, Contexts: d.Contexts, Scheduler: d.scheduler,
		Lasts: func() []*scheduler.Task { return d.Streams.Lasts() },
	})
	d.HostMemory = hostmemory.New(hostmemory.Options{Contexts: d.Contexts, Memory: d.Memory,
		Scheduler: d.scheduler})
	d.newCodeRooms()
	d.newWorkRooms()
	return d
}

// newCodeRooms makes the rooms of code, and of textures, which kernels name.
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
func (d *Device) Open(env []string) (*gpubackend.Inventory, gpubackend.Result) {
	if d.warm {
		d.warm = false
		return d.inventory(), gpubackend.Success
	}
	if d.Space() != nil || d.Ended() {
		return nil, gpubackend.InvalidValue
	}
	if d.gpus = chip.Visible(env, d.uuids()); len(d.gpus) == 0 {
		return nil, gpubackend.NoDevice
	}
	memories := make([]memory.GPU, len(d.gpus))
	for i, gpu := range d.gpus {
		memories[i] = memory.GPU{
			Number: gpu, Bytes: d.options.Memory, Account: d.account(gpu),
		}
	}
	if d.Memory.Open(memories...) != nil {
		return nil, gpubackend.OutOfMemory
	}
	d.Contexts.Start(len(d.gpus))
	return d.inventory(), gpubackend.Success
}

// uuid is the UUID of a GPU, whether the guest process sees it or not.
func (d *Device) uuid(gpu int) [16]byte {
	if gpu == 0 {
		return d.options.UUID
	}
	return chip.NumberedUUID(gpu)
}

func (d *Device) uuids() [][16]byte {
	list := make([][16]byte, d.options.GPUs)
	for gpu := range list {
		list[gpu] = d.uuid(gpu)
	}
	return list
}

// account is what the memory of a GPU counts for.
func (d *Device) account(gpu int) *ledger.Account {
	return d.options.Accounts.Account(ledger.ID(d.uuid(gpu)))
}

// total is the memory of a GPU that the guest may have.
func (d *Device) total(gpu int) uint64 {
	if bound := d.account(gpu).Bound(); bound != 0 {
		return min(d.options.Memory, bound)
	}
	return d.options.Memory
}

// inventory is what the GPUs that the guest process sees say of themselves.
func (d *Device) inventory() *gpubackend.Inventory {
	o, list := &d.options, make([]chip.Identity, len(d.gpus))
	for i, gpu := range d.gpus {
		list[i] = chip.Identity{
			UUID: d.uuid(gpu), Bus: int32(1 + gpu), Memory: d.total(gpu),
			Multiprocessors: o.Multiprocessors,
		}
	}
	s := chip.Inventory(o.Base, uint64(len(list))*o.Window, list, o.Apart)
	for range list {
		s.Memory = append(s.Memory, o.Memory)
	}
	return s
}

// Warm implements gpubackend.Driver.
func (d *Device) Warm(gpu int) gpubackend.Result {
	s, result := d.Open(nil)
	if result == gpubackend.Success && (gpu < 0 || gpu >= len(s.Device)) {
		result = gpubackend.InvalidDevice
	}
	d.warm = result == gpubackend.Success
	return result
}

// Suits implements gpubackend.Driver: variables that mean something here choose among GPUs, or say
// how many queues these are to have. The latter is read as a GPU is initialised, as by NVIDIA's
// driver.
func (d *Device) Suits(env []string) bool {
	return !d.warm || slices.Equal(chip.Visible(env, d.uuids()), d.gpus) &&
		!slices.ContainsFunc(env, func(variable string) bool {
			return strings.HasPrefix(variable, "CUDA_DEVICE_MAX_CONNECTIONS=")
		})
}

// ending makes the rooms leave a context whose work is going to end.
func (d *Device) ending(c *contexts.Context) {
	d.Streams.Leave(c)
	d.Graphs.Drop(c)
}

// ended makes the rooms give back what was in a context whose work has ended.
func (d *Device) ended(c *contexts.Context) {
	d.Memory.Drop(c)
	d.Textures.Drop(c)
	d.Code.Drop(c)
	d.Streams.Drop(c)
	d.Reclaim()
}

// MemFree implements gpubackend.Driver. What a graph allocated goes back to the graphs.
func (d *Device) MemFree(addr uint64) gpubackend.Result {
	if !d.HasAllocated(addr) {
		return d.Memory.MemFree(addr)
	}
	if _, result := d.Current(); result != gpubackend.Success {
		return result
	}
	return d.Graphs.Free(addr)
}

// Close implements gpubackend.Driver. Kernels are stopped. If one doesn't notice in time, its
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
