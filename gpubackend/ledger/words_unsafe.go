// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"sync/atomic"
	"unsafe"
)

// word is one number of a page.
type word = atomic.Uint64

// wordAt returns the word at an offset of a page. SAFETY: mem is a mapping, which begins at a page
// and isn't unmapped before its users are gone; every offset used is a multiple of 8; the read of
// mem[at+7] checks the length. A word is 8 bytes without pointers.
func wordAt(mem []byte, at int) *word {
	_ = mem[at+7]
	return (*word)(unsafe.Pointer(&mem[at]))
}
