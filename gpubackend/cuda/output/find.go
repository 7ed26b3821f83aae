// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

// Kinds says in which ways code may print.
type Kinds struct {
	Working bool // printf
	Failing bool // assert, after which the context is dead
}

// unknown is the answer for code that can't be read.
var unknown = Kinds{Working: true, Failing: true}

// maxSearched bounds how much decompressed code of an image is searched: 64 MiB take some 50 ms.
const maxSearched = 64 << 20

func (k *Kinds) add(other Kinds) {
	k.Working = k.Working || other.Working
	k.Failing = k.Failing || other.Failing
}

// Find searches an image for the functions by which device code prints. It looks at what a device
// may run: cubins for its architecture or, if there are none, what the driver compiles.
func Find(image []byte, runs func(major int) bool, memory *budget.Budget) (found Kinds) {
	im, err := fatbin.Open(image)
	if err != nil {
		return unknown
	}
	cubins := func(e *fatbin.Variant) bool {
		return (e.Kind == fatbin.ELF || e.Kind == fatbin.NewELF) &&
			(len(im.Variants) == 1 || runs(e.Arch/10))
	}
	wanted := func(e *fatbin.Variant) bool {
		return e.Kind != fatbin.ELF && e.Kind != fatbin.NewELF
	}
	for i := range im.Variants {
		if cubins(&im.Variants[i]) {
			wanted = cubins
			break
		}
	}
	left := uint64(maxSearched)
	for i := range im.Variants {
		e := &im.Variants[i]
		if !wanted(e) {
			continue
		}
		if e.Size > left {
			return unknown
		}
		left -= e.Size
		found.add(printsOf(e, memory.Open()))
	}
	return found
}

func printsOf(e *fatbin.Variant, memory *budget.Account) Kinds {
	defer memory.Close()
	switch e.Kind {
	case fatbin.PTX, fatbin.ELF, fatbin.NewELF:
	default:
		return unknown
	}
	code, err := e.Payload(memory)
	if err != nil {
		return unknown
	}
	return Kinds{
		Working: bytes.Contains(code, []byte("vprintf")),
		Failing: bytes.Contains(code, []byte("__assertfail")),
	}
}
