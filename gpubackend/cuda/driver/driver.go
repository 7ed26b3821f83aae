// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"strings"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// MaxVersion is the CUDA version that guests are offered at most: the functions of later ones are
// unknown here.
const MaxVersion = 13000

// TextCapacity is the scratch for names; longer ones (mangled C++ names) get a larger one.
const TextCapacity = 4096

// Driver is the driver's library. The methods whose names are those of gpubackend.Driver are like
// it; the others have the names of CUDA's functions.
type Driver struct{ calls }

// Work is told of each stream that is given work.
type Work interface{ Touch(s gpubackend.Stream) }

// Open loads the library at path and finds its functions. Init initialises it.
func Open(path string) (*Driver, error) {
	d := &Driver{}
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

// resolve finds the functions by their exported names, each of which has one ABI for ever. A name
// that isn't exported is asked of cuGetProcAddress, if it has no suffix: by a base name the driver
// gives the newest ABI of the version asked for, which for a name with a suffix would be another
// one.
func (d *Driver) resolve() {
	for s := range symbols {
		d.function[s] = d.lookup(symbolName(s))
	}
	if d.function[symGetProcAddress] == nil {
		return
	}
	version := min(d.DriverVersion(), MaxVersion)
	for s := range symbols {
		name := symbolName(s)
		if d.function[s] != nil || strings.Contains(name, "_v") {
			continue
		}
		r := d.call(symGetProcAddress, d.text(name), d.out(0), uint64(version), 0, d.out(1))
		if r == gpubackend.Success {
			d.function[s] = cmem.Pointer(d.value(0))
		}
	}
}

// ReportTo has work told of streams that are given work from now on; nil: nobody is told.
func (d *Driver) ReportTo(work Work) { d.work = work }

// Touch tells of a stream that is given work by a call of somebody else's.
func (d *Driver) Touch(s gpubackend.Stream) {
	if d.work != nil {
		d.work.Touch(s)
	}
}

// DriverVersion is the CUDA version that the driver supports, or 0.
func (d *Driver) DriverVersion() uint32 {
	if d.call(symDriverGetVersion, d.out(0)) != gpubackend.Success {
		return 0
	}
	return uint32(d.value(0))
}

// Init initialises the driver, which reads the environment.
func (d *Driver) Init() gpubackend.Result {
	d.started = true
	return d.call(symInit, 0)
}
