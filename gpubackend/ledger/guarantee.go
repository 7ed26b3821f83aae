// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"slices"
)

// CheckGuarantees says why the guarantees of VMs, by their names, can't be kept together on a GPU
// of so much memory.
func CheckGuarantees(total uint64, guarantees map[string]uint64) error {
	sum := uint64(0)
	for _, vm := range slices.Sorted(maps.Keys(guarantees)) {
		bytes := guarantees[vm]
		if bytes > total || sum > total-bytes {
			return fmt.Errorf("memory-guarantee of VM %q: %d bytes and the %d guaranteed to "+
				"others are more than the GPU's %d: lower one of them", vm, bytes, sum, total)
		}
		sum += bytes
	}
	return nil
}
