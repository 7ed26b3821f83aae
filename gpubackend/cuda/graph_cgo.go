// SPDX-License-Identifier: Apache-2.0

package cuda

// #include "driver.h"
import "C"

import "unsafe"

// inOut is out for a parameter that the driver reads, too.
func (l *library) inOut(i int, value uint64) uint64 {
	l.frame.output[i] = C.uint64_t(value)
	// SAFETY: the frame is C memory.
	return uint64(uintptr(unsafe.Pointer(&l.frame.output[i])))
}
