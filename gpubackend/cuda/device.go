// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"fmt"
	"os"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/hostfunc"
)

// DefaultLibrary is the name under which the driver's library is installed.
const DefaultLibrary = "libcuda.so.1"

// Options say how the driver is used. The zero value is good.
type Options struct {
	// Library is the path or name of the driver's library; DefaultLibrary if empty.
	Library string
	// AllowPageable admits GPUs whose kernels reach the ordinary memory of this process (HMM, ATS).
	AllowPageable bool
	// GraphReplay lets launches that repeat be replayed as graphs.
	GraphReplay bool
	// MemoryLimit bounds device memory and is the total that the guest sees; 0 is no limit.
	MemoryLimit uint64
	// PCI is the folder in which PCI devices are looked up; pcie.Devices if empty.
	PCI string
	// HostMemory is what the guest process may make this one take of the host's memory; nil: any.
	HostMemory *budget.Budget
	// Capture is where kernels' output goes; nil leaves it on this process's standard output.
	Capture *Capture
	// Log receives what a Result can't say; nil is the standard logger.
	Log *logrus.Entry
}

// calls is what is passed on as it is.
type calls = driver.Driver

// Device is the GPUs of the host as one process sees them. It implements gpubackend.Driver.
type Device struct {
	*calls
	options  Options
	log      *logrus.Entry
	gpus     []gpu
	contexts map[gpubackend.Context]*context
	current  gpubackend.Context
	state    *context // of current; nil for none
	owners   map[uint64]*context
	memories map[gpubackend.Memory]guestMemory
	arrays   map[uint64]arrayCharge
	textures objects
	surfaces objects
	links    map[gpubackend.Link]*linking
	kernels  enumeration[gpubackend.Library, gpubackend.Kernel]
	waits    *hostfunc.Calls
	greens   map[gpubackend.GreenContext]gpubackend.Context
	placed   placements
	// registered is what HostRegister made known, by address.
	registered map[uint64]registration
	ranges     ranges
	lends      bool                 // the driver doesn't know all of it
	prints     prints               // of all modules that were loaded
	snapshot   *gpubackend.Snapshot // of Warm, until Open takes it
	replays    replays
	references bool // a module's texture or surface reference was asked for: kernels may use them
	// graphMemory is that of allocation nodes.
	graphMemory graphMemory
	limits      map[contextLimit]limitCharge
	// libraries is what the variables of each count for in a context.
	libraries map[gpubackend.Library]uint64
	held      held
	// streams has the context of each stream that the guest made.
	streams map[gpubackend.Stream]*context
	// capturing are the streams that were told to capture.
	capturing map[gpubackend.Stream]struct{}
	// functions are those of the module that was enumerated last.
	functions enumeration[gpubackend.Module, gpubackend.Function]
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
	d := &Device{
		options:    options,
		log:        options.Log,
		contexts:   make(map[gpubackend.Context]*context),
		owners:     make(map[uint64]*context),
		streams:    make(map[gpubackend.Stream]*context),
		capturing:  make(map[gpubackend.Stream]struct{}),
		registered: make(map[uint64]registration),
	}
	if d.log == nil {
		d.log = logrus.NewEntry(logrus.StandardLogger())
	}
	var err error
	if d.calls, err = driver.Open(options.Library); err != nil {
		return nil, fmt.Errorf("load the CUDA driver: %w", err)
	}
	return d, nil
}

// Close lets streams that wait for host functions go on, frees the memory and unloads the library. Contexts end
// with the process: destroying them would wait for a kernel that never ends.
func (d *Device) Close() {
	if !d.IsOpen() {
		return
	}
	if d.waits != nil {
		d.waits.Close()
	}
	if d.ended() == gpubackend.NotReady {
		d.log.Warn("closed with work in flight: device memory is freed by the end of the process")
		return
	}
	for i := range d.gpus {
		d.gpus[i].close(d.calls)
	}
	d.gpus = nil
	d.calls.Close()
}

// ended says whether any context has work in flight.
func (d *Device) ended() gpubackend.Result {
	for c := range d.contexts {
		if d.SetCurrent(c) == gpubackend.Success && d.ContextQuery() == gpubackend.NotReady {
			return gpubackend.NotReady
		}
	}
	return gpubackend.Success
}
