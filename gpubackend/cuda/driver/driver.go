// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"strings"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// MaxVersion is the CUDA version that guests are offered at most: the functions of later ones are
// unknown here.
const MaxVersion = cudaabi.DriverVersion

// TextCapacity is the size of the scratch for names; longer ones (mangled C++ names) get a larger
// one.
const TextCapacity = 4096

// Driver is the driver's library, by rooms. Methods with a name of gpubackend.Driver's have that
// one's form; the others are named after CUDA's functions.
type Driver struct {
	*library
	GPUs
	Contexts
	Memory
	Copies
	Launches
	Code
	Streams
	Graphs
	Textures
	Green
}

// The rooms have the names of those of package cuda. Each is one word, a pointer to the library, so
// that calls through an interface cost no more. What gpubackend/api describes is generated; a room
// overrides what has another form.
type (
	GPUs     struct{ *library }
	Contexts struct{ contextsCalls }
	Memory   struct{ memoryCalls }
	Copies   struct{ copiesCalls }
	Launches struct{ *library }
	Code     struct{ codeCalls }
	Streams  struct{ streamsCalls }
	Graphs   struct{ graphsCalls }
	Textures struct{ texturesCalls }
	Green    struct{ greenCalls }
)

// furnish makes the rooms of a library.
func furnish(l *library) *Driver {
	return &Driver{
		library: l, GPUs: GPUs{l}, Contexts: Contexts{contextsCalls{l}},
		Memory: Memory{memoryCalls{l}}, Copies: Copies{copiesCalls{l}}, Launches: Launches{l},
		Code: Code{codeCalls{l}}, Streams: Streams{streamsCalls{l}},
		Graphs: Graphs{graphsCalls{l}}, Textures: Textures{texturesCalls{l}},
		Green: Green{greenCalls{l}},
	}
}

// Work is told of each stream that is given work.
type Work interface{ Touch(s gpubackend.Stream) }

// Open loads the library at path and finds its functions. Init initialises it.
func Open(path string) (*Driver, error) {
	d := furnish(&library{})
	if err := d.open(path); err != nil {
		return nil, err
	}
	d.resolve()
	for _, s := range required {
		if d.function[s] == nil {
			d.Close()
			return nil, fmt.Errorf("%s: no function %s: "+
				"the driver is too old (CUDA 12.0 or later is needed)", path, symbolName(s))
		}
	}
	return d, nil
}

// resolve finds the functions by their exported names, each of which keeps its ABI forever.
// cuGetProcAddress is asked for a name that isn't exported, if it has no suffix: for a base name it
// gives the newest ABI of a version, which is the wrong one for a name with a suffix.
func (l *library) resolve() {
	for s := range symbols {
		l.function[s] = l.lookup(symbolName(s))
	}
	if l.function[symGetProcAddress] == nil {
		return
	}
	version := min(l.DriverVersion(), MaxVersion)
	for s := range symbols {
		name := symbolName(s)
		if l.function[s] != nil || strings.Contains(name, "_v") {
			continue
		}
		r := l.call(symGetProcAddress, l.text(name), l.out(0), uint64(version), 0, l.out(1))
		if r == gpubackend.Success {
			l.function[s] = cmem.Pointer(l.value(0))
		}
	}
}

// ReportTo says who is told of streams that are given work from now on; nil: nobody.
func (l *library) ReportTo(work Work) { l.work = work }

// Touch tells of a stream that somebody else's call gives work.
func (l *library) Touch(s gpubackend.Stream) {
	if l.work != nil {
		l.work.Touch(s)
	}
}

// DriverVersion is the CUDA version that the driver supports, or 0.
func (l *library) DriverVersion() uint32 {
	if l.call(symDriverGetVersion, l.out(0)) != gpubackend.Success {
		return 0
	}
	return uint32(l.value(0))
}

// Init initialises the driver, which reads the environment.
func (l *library) Init() gpubackend.Result {
	l.started = true
	return l.call(symInit, 0)
}
