// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/turns"
)

// maxGPUs is how many GPUs an arbiter can tell apart.
const maxGPUs = 64

var errGPUs = errors.New("too many GPUs")

// gpuNames are the bits of GPUs in a set, by their names.
type gpuNames map[string]int

// set is the set of the GPUs of these names.
func (n gpuNames) set(names []string) (s turns.GPUs, err error) {
	for _, name := range names {
		bit, ok := n[name]
		if !ok {
			if len(n) == maxGPUs {
				return 0, fmt.Errorf("%w: this arbiter knows %d already", errGPUs, maxGPUs)
			}
			if len(name) == 0 || len(name) > maxName {
				return 0, fmt.Errorf("the name of a GPU must have 1 to %d characters", maxName)
			}
			bit = len(n)
			n[name] = bit
		}
		s |= 1 << bit
	}
	return s, nil
}
