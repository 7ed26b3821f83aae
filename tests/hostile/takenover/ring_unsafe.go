// SPDX-License-Identifier: Apache-2.0

package takenover

import "unsafe"

// word is one of the ring's.
func (m *mover) word(at int) *uint32 {
	// SAFETY: at is in the ring's mapping, which stays, and a multiple of four.
	return (*uint32)(unsafe.Pointer(&m.ring[at]))
}
