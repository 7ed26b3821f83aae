// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"fmt"
	"math"

	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/size"
)

// withRoom adds to the error of programs that can't be taken up how much memory they had, if the VM
// may not have that much by now. They are tried first: they may do with less.
func (s *Saving) withRoom(list []savedvm.Program, err error) error {
	bound := s.config.Bound()
	need := needed(list)
	if err == nil || bound == 0 || need <= bound {
		return err
	}
	return fmt.Errorf("%w: the programs had %d bytes of the GPU's memory, and the VM may have %d: "+
		"set memory=%s or more", err, need, bound, size.Format(roundUp(need)))
}

// needed is how much programs had of the GPU of which they had most.
func needed(list []savedvm.Program) (most uint64) {
	of := map[uint64]uint64{}
	for _, p := range list {
		for gpu, bytes := range p.Had {
			of[gpu] += min(bytes, math.MaxUint64-of[gpu])
			most = max(most, of[gpu])
		}
	}
	return most
}

// roundUp rounds up to what people write.
func roundUp(bytes uint64) uint64 {
	const unit = 1 << 20
	return (min(bytes, math.MaxUint64-unit) + unit - 1) &^ (unit - 1)
}
