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
func guardedCopy(dst, src []byte) (ok bool) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			if _, is := r.(fault); !is {
				panic(r)
			}
			ok = false
		}
	}()
	copy(dst, src)
	return true
}
