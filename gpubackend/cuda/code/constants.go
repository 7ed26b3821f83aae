// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// The driver has constants in banks, wherever it likes. Kernels don't take their addresses (package
// managed refuses such code), but programs do, to copy to them. A program whose variables are
// placed is told an address of ours, by which it knows the constant for good; package copyable
// gives the driver its own. Nothing lies at our addresses: a kernel that is given one, and uses it,
// fails. What constants hold is saved with the layout of memory, and written to where another
// driver has them, as soon as their code is made.

const (
	// constantsBase is where they begin.
	constantsBase = devmem.Behind
	// constantsBytes bounds the constants of which a program is told, and their number.
	constantsBytes = 16 << 20
	// constantCost is what one counts for of the host's memory, beside its name.
	constantCost    = 256
	maxConstantName = 4096
)

// constant is one that the guest knows, at an address of ours.
type constant struct {
	name      string
	at, bytes uint64
	content   []byte // until it is restored
}

// reserve makes sure that nothing else lies at the addresses of constants.
func (x *Code) reserve() bool {
	if x.areas.reserved || x.areas.refused {
		return x.areas.reserved
	}
	base, r := x.calls.MemAddressReserve(constantsBytes, constantsBase)
	if r == gpubackend.Success && base != constantsBase {
		x.calls.MemAddressFree(base, constantsBytes)
		r = gpubackend.OutOfMemory
	}
	x.areas.refused, x.areas.reserved = r != gpubackend.Success, r == gpubackend.Success
	if x.areas.reserved {
		x.ranges.Told.SetRange(constantsBase, constantsBytes)
		x.options.Log.Info("kernels can't use the addresses of its constants (movable-code=on)")
	} else {
		x.options.Log.Warn("the addresses of constants are taken by something else")
	}
	return x.areas.reserved
}

// EndAddresses gives the addresses of constants back, when all work has ended.
func (x *Code) EndAddresses() {
	if x.areas.reserved {
		x.calls.MemAddressFree(constantsBase, constantsBytes)
		x.areas.reserved = false
	}
}

// tell is the address that the guest is told of a constant of the driver's; false: there is none.
// The code's variables must be in an area.
func (x *Code) tell(a *variablesArea, name string, addr, bytes uint64) (at uint64, ok bool) {
	if a == nil || len(name) > maxConstantName || !x.reserve() {
		return 0, false
	}
	if at, ok = x.ranges.Told.Of(addr, bytes); ok {
		return at, true
	}
	cost := costOf(name)
	if a.memory.Take(cost) != nil {
		return 0, false
	}
	if at, ok = x.ranges.Told.Add(addr, bytes); !ok {
		a.memory.Give(cost)
		return 0, false
	}
	a.constants = append(a.constants, constant{name: name, at: at, bytes: bytes})
	return at, true
}

// costOf is what a constant counts for.
func costOf(name string) uint64 { return uint64(len(name)) + constantCost }

// tellAgain gives constants of an area the addresses and the content that they had in another
// process. global is where the driver has them.
func (x *Code) tellAgain(
	a *variablesArea, global func(name string) (addr, bytes uint64, r gpubackend.Result),
) gpubackend.Result {
	list := x.areas.restored[a.base]
	if len(list) > 0 && !x.reserve() {
		return gpubackend.OutOfMemory
	}
	for _, c := range list {
		x.areas.waiting.Give(costOf(c.name))
		addr, bytes, r := global(c.name)
		switch {
		case r != gpubackend.Success:
			return r
		case bytes != c.bytes,
			!x.ranges.Told.Put(copyable.Alias{At: c.at, Real: addr, Bytes: bytes}):
			return gpubackend.InvalidValue
		case a.memory.Take(costOf(c.name)) != nil:
			return gpubackend.OutOfMemory
		}
		if r = x.filling.Put(addr, c.content); r != gpubackend.Success {
			return r
		}
		c.content = nil
		a.constants = append(a.constants, c)
	}
	delete(x.areas.restored, a.base)
	return gpubackend.Success
}

// forgetConstants ends the addresses of an area's constants, which are gone.
func (x *Code) forgetConstants(a *variablesArea) {
	for _, c := range a.constants {
		x.ranges.Told.Remove(c.at)
	}
	a.constants = nil
}
