// SPDX-License-Identifier: Apache-2.0

package guestmem

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrFault is returned when guest memory vanished while it was being touched: the file behind it
// was cut short, or had no room for the page.
var ErrFault = errors.New("guest memory fault")

// faultPanic is the method that the runtime's panic value for a fault has besides those of
// runtime.Error.
type faultPanic interface {
	error
	Addr() uintptr
}

// Guard runs fn and turns a fault on this memory into ErrFault. Guards nest.
func (m *Memory) Guard(fn func() error) (err error) {
	defer m.Recover(debug.SetPanicOnFault(true), &err)
	return fn()
}

// Recover is Guard for hot paths, where a closure would cost an allocation. It must be deferred
// directly, with a named result:
//
//	defer m.Recover(debug.SetPanicOnFault(true), &err)
//
// Panics that aren't faults on this memory go on.
func (m *Memory) Recover(old bool, err *error) {
	debug.SetPanicOnFault(old)
	if r := recover(); r != nil {
		*err = faultOf(r, m.holdsAddr)
	}
}

// faultOf is the error for a panic that is a fault on memory. Other panics go on.
func faultOf(r any, holds func(addr uintptr) bool) error {
	fault, ok := r.(faultPanic)
	if !ok || !holds(fault.Addr()) {
		panic(r)
	}
	return fmt.Errorf("%w at host address %#x", ErrFault, fault.Addr())
}
