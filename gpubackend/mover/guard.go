// SPDX-License-Identifier: Apache-2.0

package mover

import "runtime/debug"

// fault is the method that the runtime's panic for a memory fault has besides those of
// runtime.Error.
type fault interface {
	error
	Addr() uintptr
}

// guardedCopy copies src to dst, which have the same length. Others may cut either short meanwhile.
// It says whether all was copied.
func guardedCopy(dst, src []byte) bool {
	s := statusDone
	func() {
		defer endGuard(debug.SetPanicOnFault(true), &s)
		copy(dst, src)
	}()
	return s == statusDone
}

// endGuard is deferred by what touches memory that others may cut short. It makes a fault the
// status statusFault. old is what debug.SetPanicOnFault returned.
func endGuard(old bool, s *status) {
	debug.SetPanicOnFault(old)
	if r := recover(); r != nil {
		if _, is := r.(fault); !is {
			panic(r)
		}
		*s = statusFault
	}
}
