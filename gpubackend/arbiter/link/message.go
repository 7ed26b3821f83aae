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

// Version is that of the messages and of the gate's page.
const Version = 1

// Kind says what a request is.
type Kind string

// The kinds of requests.
const (
	Join    Kind = "join"    // a VM takes part while the connection lasts; with the gate's files
	Figures Kind = "figures" // of a VM that takes part; not answered
	Set     Kind = "set"     // change a policy
	List    Kind = "list"    // tell about all VMs
)

// Request is what is asked of an arbiter.
type Request struct {
	Version int               `json:"version"`
	Kind    Kind              `json:"kind"`
	Name    string            `json:"name,omitempty"` // of the VM
	GPUs    []string          `json:"gpus,omitempty"` // of a VM that joins
	Policy  map[string]string `json:"policy,omitempty"`
	Figures *Figure           `json:"figures,omitempty"`
}

// Figure is what a device process tells of its VM.
type Figure struct {
	Memory    map[string]uint64 `json:"memory,omitempty"`   // bytes by kind
	Counters  map[string]uint64 `json:"counters,omitempty"` // since the VM began
	Processes []Process         `json:"processes,omitempty"`
}

// Process is a guest process that uses the GPU.
type Process struct {
	PID    int32  `json:"pid"`
	Name   string `json:"name"`
	Memory uint64 `json:"memory"`
}

// Answer is an arbiter's.
type Answer struct {
	Version int    `json:"version"`
	Error   string `json:"error,omitempty"`
	VMs     []VM   `json:"vms,omitempty"`
}

// VM is what an arbiter tells of one.
type VM struct {
	Name     string            `json:"name"`
	GPUs     []string          `json:"gpus"`
	Policy   map[string]string `json:"policy"`
	Open     bool              `json:"open"`  // its gate
	Alone    bool              `json:"alone"` // nothing is counted
	HeldNS   uint64            `json:"held_ns"`
	WaitedNS uint64            `json:"waited_ns"`
	Turns    uint64            `json:"turns"`
	Overruns uint64            `json:"overruns"`
	DebtNS   uint64            `json:"debt_ns"`
	Figures  *Figure           `json:"figures,omitempty"`
}
