// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"fmt"
	"os"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/code"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/copies"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
	"github.com/paracuda/paracuda/gpubackend/cuda/graphs"
	"github.com/paracuda/paracuda/gpubackend/cuda/graphs/exec"
	"github.com/paracuda/paracuda/gpubackend/cuda/green"
	"github.com/paracuda/paracuda/gpubackend/cuda/hostmemory"
	"github.com/paracuda/paracuda/gpubackend/cuda/launches"
	"github.com/paracuda/paracuda/gpubackend/cuda/limits"
	"github.com/paracuda/paracuda/gpubackend/cuda/memory"
	"github.com/paracuda/paracuda/gpubackend/cuda/output"
	"github.com/paracuda/paracuda/gpubackend/cuda/sharing"
	"github.com/paracuda/paracuda/gpubackend/cuda/streams"
	"github.com/paracuda/paracuda/gpubackend/cuda/textures"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// DefaultLibrary is the name under which the driver's library is installed.
const DefaultLibrary = "libcuda.so.1"

// Options say how the driver is used. The zero value is usable.
type Options struct {
	// Library is the path or name of the driver's library; DefaultLibrary if empty.
	Library string
	// AllowPageable admits GPUs whose kernels reach the ordinary memory of this process (HMM, ATS).
	AllowPageable bool
	// GraphReplay lets launches that repeat be replayed as graphs.
	GraphReplay bool
	// MovableCode puts the variables of code where another process can have them, too.
	MovableCode bool
	// MemoryLimit bounds device memory and is the total that the guest sees; 0 is no limit.
	MemoryLimit uint64
	// Accounts count device memory and contexts; nil: nobody shares the GPU.
	Accounts *ledger.Process
	// Known is what the host knows of GPUs and the driver doesn't tell here: their NVLinks.
	Known []hostgpus.GPU
	// PCI is the folder in which PCI devices are looked up; pcie.Devices if empty.
	PCI string
	// HostMemory bounds what the guest process may make this one take of the host's memory; nil: no
	// bound.
	HostMemory *budget.Budget
	// Capture is where kernels' output goes; nil leaves it in this process's standard output.
	Capture *output.Redirect
	// Log receives what a Result can't say; nil: the standard logger.
	Log *logrus.Entry
}

// ContextBytes is what a context counts for until one has been measured.
const ContextBytes = memory.ContextBytes

// passed has the methods that no room has: these go straight to the driver.
type passed struct{ *driver.Driver }

// unsaved has what the driver does by itself, or can't tell. Like passed it is one level deeper
// than the rooms.
type unsaved struct{ gpubackend.Unsaved }

// The rooms, by the names that they have in Device.
type (
	contextRoom    = contexts.Contexts
	memoryRoom     = memory.Memory
	hostMemoryRoom = hostmemory.HostMemory
	copyRoom       = copies.Copies
	launchRoom     = launches.Launches
	codeRoom       = code.Code
	streamRoom     = streams.Streams
	graphRoom      = exec.Exec
	textureRoom    = textures.Textures
	limitRoom      = limits.Limits
	greenRoom      = green.Green
	sharingRoom    = sharing.Sharing
)

// Device is the host's GPUs as one process sees them. The methods of gpubackend.Driver are those of
// its rooms. The driver's library is one level deeper, so that a room's method goes before the
// library's.
type Device struct {
	passed
	unsaved
	*contextRoom
	*memoryRoom
	*hostMemoryRoom
	*copyRoom
	*launchRoom
	*codeRoom
	*streamRoom
	*graphRoom
	*textureRoom
	*limitRoom
	*greenRoom
	*sharingRoom

	options   Options
	log       *logrus.Entry
	gpus      *gpus.List
	ranges    *copyable.Ranges
	output    *output.Output
	inventory *gpubackend.Inventory // of Warm, until Open takes it
}

var _ gpubackend.Driver = (*Device)(nil)

// Available says why the host's driver can't be used, or nil. It loads the library for a moment and
// doesn't initialise it: a GPU that is present but broken shows at Open.
func Available() error {
	l, err := driver.Open(DefaultLibrary)
	if err != nil {
		return fmt.Errorf("no CUDA driver: %w", err)
	}
	defer l.Close()
	if l.DriverVersion() == 0 {
		return fmt.Errorf("%s is a stub: the NVIDIA driver itself is not installed", DefaultLibrary)
	}
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		return fmt.Errorf("no NVIDIA device node: %w", err)
	}
	return nil
}

// New loads the driver's library. Open initialises it.
func New(options Options) (gpubackend.Driver, error) {
	return NewDevice(options)
}

// NewDevice is New for callers that need more than the interface (the mover, the self-check).
func NewDevice(options Options) (*Device, error) {
	if options.Library == "" {
		options.Library = DefaultLibrary
	}
	if options.Log == nil {
		options.Log = logrus.NewEntry(logrus.StandardLogger())
	}
	calls, err := driver.Open(options.Library)
	if err != nil {
		return nil, fmt.Errorf("load the CUDA driver: %w", err)
	}
	return furnish(calls, options), nil
}

// furnish makes the rooms and gives each the others that it needs.
func furnish(calls *driver.Driver, o Options) *Device {
	d := &Device{passed: passed{calls}, options: o, log: o.Log, gpus: &gpus.List{}}
	x := contexts.New(calls.Contexts, d.gpus)
	d.contextRoom = x
	d.ranges = copyable.New(calls.Memory, x)
	d.output = output.New(o.Capture, d.hasMajor, o.HostMemory, driver.FlushOutput)
	d.memoryRoom = memory.New(calls, x, d.gpus, d.ranges, memory.Options{
		Limit: o.MemoryLimit, Accounts: o.Accounts, Host: o.HostMemory, Log: o.Log,
	})
	d.streamRoom = streams.New(calls, x, d.output, d.memoryRoom.Settled, o.Log)
	d.copyRoom = copies.New(calls.Copies, x, d.ranges, calls.Streams)
	d.launchRoom = launches.New(calls.Launches, x, d.streamRoom.Capturing, o.GraphReplay)
	d.hostMemoryRoom = hostmemory.New(calls, x, d.gpus, d.ranges, d.streamRoom.Capturing, o.Log)
	d.codeRoom = code.New(calls, code.Rooms{
		Contexts: x, GPUs: d.gpus, Ranges: d.ranges, Memory: d.As(ledger.Code),
		Charges: memory.NewCharges(d.As(ledger.Code), x), Host: d.hostMemoryRoom, Prints: d.output,
		Placing: d.memoryRoom, Filling: d.copyRoom,
		CopyOut: d.copyRoom.CopyOut, Ending: d.launchRoom.Forget,
	}, code.Options{Host: o.HostMemory, Log: o.Log, Movable: o.MovableCode})
	g := graphs.New(calls, x, d.gpus, d.ranges, d.As(ledger.Graphs), graphs.Needs{
		HostNode: d.streamRoom.HostNode, FunctionOf: d.codeRoom.KernelGetFunction,
	})
	d.graphRoom = exec.New(calls, x, g, d.streamRoom.Keeps)
	arrays := memory.NewCharges(d.As(ledger.Arrays), x)
	d.textureRoom = textures.New(calls, x, d.ranges, arrays, o.HostMemory,
		d.launchRoom.EndReplays, d.memoryRoom.Backed)
	d.limitRoom = limits.New(calls.Contexts, x, d.gpus, d.As(ledger.Limits))
	d.greenRoom = green.New(calls, x, d.gpus, green.Hooks{
		Ending: d.launchRoom.Forget, Ended: d.greenEnded, Stream: d.streamRoom.Add,
	})
	d.sharingRoom = sharing.New(calls, x, d.memoryRoom, o.Log)
	d.memoryRoom.Connect(d.streamRoom, d.graphRoom)
	x.SetHooks(contexts.Hooks{
		Ending: d.launchRoom.Forget, Room: d.codeRoom.Room, Take: d.TakeContext,
		Give: d.GiveContext, Began: d.codeRoom.Began, Ready: d.codeRoom.ServeIn,
		Current: d.codeRoom.Serve, Holds: d.memoryRoom.Holds, Ended: d.contextEnded,
		Connect: d.memoryRoom.ShareWith,
	})
	return d
}

// contextEnded tells the rooms that a context has ended.
func (d *Device) contextEnded(c *contexts.Context) {
	d.greenRoom.Ended(c)
	d.streamRoom.Ended(c)
	d.copyRoom.Ended(c)
	d.memoryRoom.Ended(c)
	d.textureRoom.Ended(c)
	d.limitRoom.Ended(c)
	d.codeRoom.Ended(c)
	d.graphRoom.Measure()
	d.hostMemoryRoom.Ended(c)
}

// greenEnded does so for a green context, which has only streams and limits.
func (d *Device) greenEnded(c *contexts.Context) {
	d.memoryRoom.Inherit(c)
	d.limitRoom.Ended(c)
	d.copyRoom.Ended(c)
	d.streamRoom.Ended(c)
}

// hasMajor says whether a device has that major compute capability.
func (d *Device) hasMajor(major int) bool {
	for i := range d.gpus.Len() {
		has, r := d.DeviceGetAttribute(cudaabi.DeviceAttributeComputeCapabilityMajor,
			d.gpus.At(i).Native)
		if r == gpubackend.Success && int(has) == major {
			return true
		}
	}
	return false
}

// Output takes what kernels printed. The driver writes it when a stream or event is seen idle.
func (d *Device) Output() []gpubackend.Output {
	c := d.Current()
	return d.output.Take(c != nil && c.Dead() != gpubackend.Success)
}

// Close lets streams that wait for host functions go on, frees the memory and unloads the library.
// Contexts end with the process: destroying them would wait for a kernel that never ends.
func (d *Device) Close() {
	if !d.IsOpen() {
		return
	}
	d.ReleaseAll()
	if d.working() {
		d.log.Warn("closed with work in flight: device memory is freed by the end of the process")
		return
	}
	d.EndAddresses()
	d.memoryRoom.Close()
	d.Driver.Close()
}

// working says whether any context has work in flight.
func (d *Device) working() bool {
	for c := range d.All() {
		if d.SetCurrent(c.Handle) == gpubackend.Success && d.ContextQuery() == gpubackend.NotReady {
			return true
		}
	}
	return false
}
