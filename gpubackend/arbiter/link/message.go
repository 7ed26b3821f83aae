// SPDX-License-Identifier: Apache-2.0

// Package link is what is said on the arbiter's socket: by device processes, whose VMs take part,
// and by operators' commands.
//
// A connection carries messages, each a JSON object of bounded size (SOCK_SEQPACKET). Each names
// the version that it is of.
//
// Who may lie: whoever may connect. So what comes in is bounded and checked before it is used, and
// descriptors that weren't asked for are closed.
package link

import "math"

// Version is that of the messages and of the gate's page. It stays where something is added that
// may be missing.
const Version = 1

// Kind says what a request is.
type Kind string

// The kinds of requests.
const (
	Join Kind = "join"    // a VM takes part while the connection lasts; with the gate's files
	Tell Kind = "figures" // of a VM that takes part
	Stay Kind = "stay"    // where the memory of one is
	Set  Kind = "set"     // change a policy
	List Kind = "list"    // tell about all VMs
	// Choose GPUs for a VM that is to join by this name. They are kept for it while the connection
	// lasts.
	Choose Kind = "choose"
)

// GPU is one that a VM uses.
type GPU struct {
	Name   string `json:"name"`
	Memory uint64 `json:"memory,omitempty"` // bytes; 0: not known
	Free   uint64 `json:"free,omitempty"`   // of them, to Choose; 0: not known
}

// Request is what is asked of an arbiter.
type Request struct {
	Version int               `json:"version"`
	Kind    Kind              `json:"kind"`
	Name    string            `json:"name,omitempty"`  // of the VM
	GPUs    []GPU             `json:"gpus,omitempty"`  // of a VM that joins; to Choose, the host's
	Count   int               `json:"count,omitempty"` // of GPUs, to Choose
	Room    uint64            `json:"room,omitempty"`  // that the VM is to have on each of its GPUs
	Policy  map[string]string `json:"policy,omitempty"`
	Figures *Figures          `json:"figures,omitempty"`
	Place   *Place            `json:"place,omitempty"` // to Join and Stay
	Warm    *Warm             `json:"warm,omitempty"`  // to Tell
}

// Warm is what a VM wants of warm workers.
type Warm struct {
	Want int    `json:"want"` // how many it would keep
	Used uint64 `json:"used"` // when its last program began: ns of the host's monotonic clock
}

// Place is where a VM's memory is, all of it.
type Place struct {
	Total   uint64 `json:"total,omitempty"`   // that the GPU has; 0: not known
	Have    uint64 `json:"have,omitempty"`    // bytes, on the GPU and out
	Stays   uint64 `json:"stays,omitempty"`   // of them, what stays on the GPU while the VM is out
	Want    uint64 `json:"want,omitempty"`    // that it would have with what it lacks; 0: nothing
	Out     bool   `json:"out,omitempty"`     // its memory is, by the arbiter's order
	Work    bool   `json:"work,omitempty"`    // it has some, although it is out
	Stopped bool   `json:"stopped,omitempty"` // suspended, or about to be, by its owner
	Serial  uint64 `json:"serial,omitempty"`  // of the order that was obeyed last, or could not be
}

// Order is where a VM's memory is to be. It holds until there is another one.
type Order struct {
	Serial  uint64 `json:"serial"` // is another one when the VM is to move
	Out     bool   `json:"out,omitempty"`
	Room    uint64 `json:"room,omitempty"`    // that the VM may have on the GPU; 0: any
	Grants  uint64 `json:"grants,omitempty"`  // is higher when it was granted what it wants
	Denials uint64 `json:"denials,omitempty"` // is higher when it was not
}

// Answer is an arbiter's. A device process is also sent one when its VM's terms have changed.
type Answer struct {
	Version int    `json:"version"`
	Error   string `json:"error,omitempty"`
	Terms   *Terms `json:"terms,omitempty"`  // to device processes
	Asked   bool   `json:"asked,omitempty"`  // it answers a device process's Set
	VMs     []VM   `json:"vms,omitempty"`    // to device processes that tell figures: their own
	More    bool   `json:"more,omitempty"`   // another message with VMs follows
	Order   *Order `json:"order,omitempty"`  // to device processes
	Warm    *int   `json:"warm,omitempty"`   // to device processes: so many it may keep
	Chosen  []int  `json:"chosen,omitempty"` // to Choose: which of the host's GPUs, in their order
}

// Terms are what holds for a VM.
type Terms struct {
	Policy map[string]string `json:"policy"`
	// Bounds are those of the policy that the operator has the device process keep.
	Bounds map[string]string `json:"bounds,omitempty"`
	// Fixed says that the arbiter's configuration has set the VM's share of time: what the device
	// process asks for doesn't count.
	Fixed bool `json:"fixed,omitempty"`
}

// VM is what an arbiter tells of one.
type VM struct {
	Name     string            `json:"name"`
	GPUs     []GPU             `json:"gpus"`
	Policy   map[string]string `json:"policy"`
	Fixed    bool              `json:"fixed,omitempty"` // by the arbiter's configuration
	Open     bool              `json:"open"`            // its gate
	Alone    bool              `json:"alone"`           // nothing is counted
	Share    float64           `json:"share"`           // of the last second, that it had the GPUs
	HeldNS   uint64            `json:"held_ns"`
	WaitedNS uint64            `json:"waited_ns"`
	Turns    uint64            `json:"turns"`
	Overruns uint64            `json:"overruns"`
	DebtNS   uint64            `json:"debt_ns"`
	Warm     int               `json:"warm"`           // workers that it may keep ready
	Room     uint64            `json:"room,omitempty"` // that it was given on each of its GPUs
	Figures  *Figures          `json:"figures,omitempty"`
	Place    string            `json:"place,omitempty"` // of a VM that moves: resident, out, ...
	SwapNS   uint64            `json:"swap_ns,omitempty"`
	OutNS    uint64            `json:"out_ns,omitempty"`
	InNS     uint64            `json:"in_ns,omitempty"`
	Swaps    uint64            `json:"swaps,omitempty"`
	Swapped  uint64            `json:"swapped_bytes,omitempty"` // out and in
	Unmoved  uint64            `json:"swap_failures,omitempty"` // orders to move that failed
}

// Memory is what all of a VM's GPUs have; 0 where that isn't known.
func (v *VM) Memory() (sum uint64) {
	for _, g := range v.GPUs {
		sum += g.Memory
	}
	return sum
}

// OnAll is a bound of what a VM may have of each GPU, over all that it has.
func (v *VM) OnAll(bytes uint64) uint64 {
	n := uint64(max(1, len(v.GPUs)))
	return min(bytes, math.MaxUint64/n) * n
}
