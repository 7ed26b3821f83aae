// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

// prints is what kernels write to this process's output, as the driver does it for them: when it is synchronized with, which
// costs 2 us each time. Most programs never print, so it is worth a look into their code.
type prints struct {
	working bool // printf
	failing bool // assert, after which the context is dead
}

// unknownPrints is said of code that can't be looked into.
var unknownPrints = prints{working: true, failing: true}

// maxSearched is how much code, decompressed, of an image is looked into: 64 MiB take some 50 ms.
const maxSearched = 64 << 20

func (p *prints) add(q prints) {
	p.working = p.working || q.working
	p.failing = p.failing || q.failing
}

// notePrints looks into an image that is loaded.
func (d *Device) notePrints(image []byte) {
	if d.prints != unknownPrints {
		d.prints.add(findPrints(image, d.hasMajor, d.options.HostMemory))
	}
}

const attributeMajor = 75 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR

// hasMajor says whether a device has that major compute capability.
func (d *Device) hasMajor(major int) bool {
	for i := range d.gpus {
		if has, r := d.DeviceGetAttribute(attributeMajor, d.gpus[i].native); r == 0 && int(has) == major {
			return true
		}
	}
	return false
}

// findPrints looks for the functions by which device code prints, in what of an image a device may run: cubins for its
// architecture or, if there are none, whatever the driver makes one of.
func findPrints(image []byte, runs func(major int) bool, memory *budget.Budget) (found prints) {
	im, err := fatbin.Open(image)
	if err != nil {
		return unknownPrints
	}
	cubins := func(e *fatbin.Entry) bool {
		return (e.Kind == fatbin.ELF || e.Kind == fatbin.NewELF) && (len(im.Entries) == 1 || runs(e.Arch/10))
	}
	wanted := func(e *fatbin.Entry) bool { return e.Kind != fatbin.ELF && e.Kind != fatbin.NewELF }
	for i := range im.Entries {
		if cubins(&im.Entries[i]) {
			wanted = cubins
			break
		}
	}
	left := uint64(maxSearched)
	for i := range im.Entries {
		e := &im.Entries[i]
		if !wanted(e) {
			continue
		}
		if e.Size > left {
			return unknownPrints
		}
		left -= e.Size
		found.add(printsOf(e, memory.Open()))
	}
	return found
}

func printsOf(e *fatbin.Entry, memory *budget.Account) prints {
	defer memory.Close()
	switch e.Kind {
	case fatbin.PTX, fatbin.ELF, fatbin.NewELF:
	default:
		return unknownPrints
	}
	code, err := e.Payload(memory)
	if err != nil {
		return unknownPrints
	}
	return prints{
		working: bytes.Contains(code, []byte("vprintf")),
		failing: bytes.Contains(code, []byte("__assertfail")),
	}
}
