// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// maxGPUs is how many GPUs an arbiter can tell apart.
const maxGPUs = 64

var errGPUs = errors.New("too many GPUs")

// gpuNames are the bits of GPUs in a set, by their names.
type gpuNames map[string]int

// set returns the set of these GPUs. New ones get a bit.
func (n gpuNames) set(gpus []link.GPU) (s turns.GPUs, err error) {
	if len(gpus) > maxGPUs {
		return 0, fmt.Errorf("%w: %d, at most %d", errGPUs, len(gpus), maxGPUs)
	}
	for _, g := range gpus {
		if policy.CheckName(g.Name) != nil {
			return 0, fmt.Errorf("GPU %.70q: want a name as VMs have them", g.Name)
		}
		bit, ok := n[g.Name]
		if !ok {
			if bit, ok = n.free(); !ok {
				return 0, fmt.Errorf("%w: this arbiter knows %d already", errGPUs, maxGPUs)
			}
			n[g.Name] = bit
		}
		s |= 1 << bit
	}
	return s, nil
}

// free is a bit that no GPU has.
func (n gpuNames) free() (bit int, ok bool) {
	var taken turns.GPUs
	for _, bit := range n {
		taken |= 1 << bit
	}
	for bit := range maxGPUs {
		if taken>>bit&1 == 0 {
			return bit, true
		}
	}
	return 0, false
}

// keep forgets the GPUs that no VM has.
func (n gpuNames) keep(used turns.GPUs) {
	for name, bit := range n {
		if used>>bit&1 == 0 {
			delete(n, name)
		}
	}
}

// memory is how much a GPU has: the median of what its members say, also the one that is joining;
// 0: nobody knows. If too much were believed, VMs would be guaranteed memory that isn't there; if
// too little, they couldn't join. The median is right as long as more members tell the truth than
// lie. Of two members, the one that says less is believed.
func (l *loop) memory(gpu string, joining *member) uint64 {
	var said []uint64
	add := func(m *member) {
		if bytes := m.says(gpu); bytes != 0 {
			said = append(said, bytes)
		}
	}
	for _, m := range l.members {
		add(m)
	}
	if l.members[joining.id] != joining {
		add(joining)
	}
	if len(said) == 0 {
		return 0
	}
	slices.Sort(said)
	return said[(len(said)-1)/2]
}

// says is how much a GPU has according to a member; 0: it doesn't say.
func (m *member) says(gpu string) (bytes uint64) {
	for _, g := range m.gpus {
		if g.Name == gpu {
			bytes = max(bytes, g.Memory)
			if len(m.gpus) == 1 {
				bytes = max(bytes, m.residence.place.Total)
			}
		}
	}
	return bytes
}
