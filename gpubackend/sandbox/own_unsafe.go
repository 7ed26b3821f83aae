// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capsetOnAll sets the capabilities of all threads. The kernel reads both arguments during the
// calls. Until these end they are pinned, so that they neither move nor are freed.
func capsetOnAll(header *unix.CapUserHeader, sets *[2]unix.CapUserData) error {
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(header)
	pinned.Pin(sets)
	return onAll(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(sets)))
}
