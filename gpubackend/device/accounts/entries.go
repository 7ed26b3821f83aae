// SPDX-License-Identifier: Apache-2.0

package accounts

import (
	"fmt"
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/gate"
)

// entries are the places that the VM's workers have on pages that all of them share, a bit for each
// one taken. There is one for each channel. A worker has it until its process has ended, so that
// there can be too few if processes don't end.
type entries uint64

// noEntry is the entry of a worker without one.
const noEntry = -1

// take gives out an entry.
func (s *entries) take() (int, error) {
	entry := bits.TrailingZeros64(^uint64(*s))
	if entry >= gate.Entries {
		return noEntry, fmt.Errorf("the VM has %d workers already, of which some do not end: "+
			"see the kernel's log", gate.Entries)
	}
	*s |= 1 << entry
	return entry, nil
}

func (s *entries) free(entry int) { *s &^= 1 << entry }
