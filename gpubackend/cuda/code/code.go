// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
	"github.com/paracuda/paracuda/gpubackend/cuda/memory"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	ModuleLoad(image cmem.Memory, o *driver.Options) (gpubackend.Module, gpubackend.Result)
	ModuleUnload(m gpubackend.Module) gpubackend.Result
	ModuleGetGlobal(m gpubackend.Module, name string) (addr, bytes uint64, r gpubackend.Result)
	ModuleGetFunctionCount(m gpubackend.Module) (uint64, gpubackend.Result)
	ModuleFunctions(m gpubackend.Module, n int) ([]uint64, gpubackend.Result)

	LibraryLoad(image cmem.Memory, o *driver.Options) (gpubackend.Library, gpubackend.Result)
	LibraryUnload(l gpubackend.Library) gpubackend.Result
	LibraryGetGlobal(l gpubackend.Library, name string) (addr, bytes uint64, r gpubackend.Result)
	LibraryGetManaged(l gpubackend.Library, name string) (addr, bytes uint64, r gpubackend.Result)
	LibraryGetModule(l gpubackend.Library) (gpubackend.Module, gpubackend.Result)
	LibraryGetKernelCount(l gpubackend.Library) (uint64, gpubackend.Result)
	LibraryKernels(l gpubackend.Library, n int) ([]uint64, gpubackend.Result)

	KernelGetFunction(k gpubackend.Kernel) (gpubackend.Function, gpubackend.Result)
	KernelParameters(k gpubackend.Kernel) (layout []byte, end uint32, r gpubackend.Result)
	KernelAttribute(attribute int, k gpubackend.Kernel, device uint64) (int32, gpubackend.Result)
	KernelName(k gpubackend.Kernel) string
	KernelSetAttribute(attribute, value uint64, k gpubackend.Kernel, dev uint64) gpubackend.Result
	FuncParameters(f gpubackend.Function) (layout []byte, end uint32, r gpubackend.Result)
	FuncAttribute(attribute int, f gpubackend.Function) (int32, gpubackend.Result)
	FuncName(f gpubackend.Function) string
	FuncSetAttribute(f gpubackend.Function, attribute, value uint64) gpubackend.Result

	LinkCreate(o *driver.Options) (gpubackend.Link, gpubackend.Result)
	LinkAddData(
		l gpubackend.Link, kind uint64, data cmem.Memory, n int, name string, o *driver.Options,
	) gpubackend.Result
	LinkComplete(l gpubackend.Link) (addr, bytes uint64, r gpubackend.Result)
	LinkDestroy(l gpubackend.Link) gpubackend.Result

	MaxActiveClusters(f gpubackend.Function, config cmem.Memory) (int32, gpubackend.Result)
	MaxPotentialClusterSize(f gpubackend.Function, config cmem.Memory) (int32, gpubackend.Result)
	ClusterMap(first, second []byte) (uint64, gpubackend.Result)
	DeviceGetAttribute(attribute int, device uint64) (int32, gpubackend.Result)
	PointerAttribute(attribute, addr uint64) (uint64, gpubackend.Result)
	MemAddressReserve(bytes, at uint64) (uint64, gpubackend.Result)
	MemAddressFree(addr, bytes uint64) gpubackend.Result
}

// Memory counts what variables take.
type Memory interface {
	Limit() uint64
	Charge(gpu int, bytes uint64) bool
	HasRoom(gpu int, bytes uint64) bool
	Uncharge(gpu int, bytes uint64)
	Recharge(gpu int, had, now uint64)
}

// HostMemory is the guest's memory in which managed variables are.
type HostMemory interface {
	Pending() bool
	RegisterEarly() gpubackend.Result
}

// Prints is told of code that is loaded.
type Prints interface{ Note(image []byte) }

// Options are those of code.
type Options struct {
	Host *budget.Budget // what images count for
	Log  *logrus.Entry
	// Movable puts variables into the window, where another process can have them, too.
	Movable bool
}

// Rooms are the other rooms that code uses.
type Rooms struct {
	Contexts *contexts.Contexts
	GPUs     *gpus.List
	Ranges   *copyable.Ranges
	Memory   Memory
	Charges  *memory.Charges // of modules
	Host     HostMemory
	Prints   Prints
	Placing  Placing
	Filling  Filling
	CopyOut  func(dst []byte, src uint64) gpubackend.Result
	Ending   func() // is called before functions end or change
}

// Code is the modules, libraries and links of one guest process.
type Code struct {
	calls    Calls
	contexts *contexts.Contexts
	gpus     *gpus.List
	ranges   *copyable.Ranges
	memory   Memory
	charges  *memory.Charges
	host     HostMemory
	prints   Prints
	placing  Placing
	filling  Filling
	copyOut  func(dst []byte, src uint64) gpubackend.Result
	ending   func()
	options  Options

	held      held
	placed    placements
	areas     areas
	links     map[gpubackend.Link]*linking
	libraries map[gpubackend.Library]uint64 // what the variables of each count for in a context
	counted   map[*contexts.Context]uint64  // what those of all count for
	kernels   enumeration[gpubackend.Library, gpubackend.Kernel]
	functions enumeration[gpubackend.Module, gpubackend.Function]
}

// New returns a Code, which has no modules yet.
func New(calls Calls, r Rooms, o Options) *Code {
	return &Code{
		calls: calls, contexts: r.Contexts, gpus: r.GPUs, ranges: r.Ranges, memory: r.Memory,
		charges: r.Charges,
		host:    r.Host, prints: r.Prints, copyOut: r.CopyOut, ending: r.Ending, options: o,
		placing: r.Placing, filling: r.Filling,
		held:  held{},
		areas: newAreas(),
		placed: placements{
			modules:   make(map[gpubackend.Module]placedModule),
			libraries: make(map[gpubackend.Library]*placed),
		},
		links:     make(map[gpubackend.Link]*linking),
		libraries: make(map[gpubackend.Library]uint64),
		counted:   make(map[*contexts.Context]uint64),
	}
}

// Placed is how many modules and libraries have managed variables.
func (x *Code) Placed() (modules, libraries int) {
	return len(x.placed.modules), len(x.placed.libraries)
}
