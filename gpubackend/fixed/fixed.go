// SPDX-License-Identifier: Apache-2.0

// Package fixed counts what keeps a program where it is: objects that another worker can't make
// again, with the same handles and addresses, from what is known about them.
//
// Each worker counts its own (package worker), in memory that it shares with its device process
// (handover.State), which shows the counts. What isn't listed isn't known to be in the way: device
// memory, also such without an address (cuMemCreate), pools, modules, streams, events, pinned
// memory, arrays, textures and most graphs, on a GPU whose state can be saved. What kernels have
// allocated with malloc isn't counted either: a program that has such memory is refused when it is
// to be saved. Nobody knows which addresses of code a kernel has stored.
//
// # Who may lie
//
// Workers. The numbers are shown, and decide nothing but whether their own program moves.
package fixed

// Kind is a kind of such objects.
type Kind int

// The kinds. docs/suspend.md says what each is.
const (
	Graphs Kind = iota
	GraphExecs
	Arrays
	Textures
	References
	GreenContexts
	Linkers
	// Memory of a program that has failed and others may use, and memory of others that can't be
	// found again.
	SharedMemory
	SharedEvents // of a program that has failed
	ShownMemory
	Commands
	Kinds
)

// Names are the names of the kinds in JSON.
var Names = [Kinds]string{
	"graphs", "graph_execs", "arrays", "textures", "references", "green_contexts", "linkers",
	"shared_memory", "shared_events", "shown_memory", "commands",
}

// Counts is how many objects of each kind there are.
type Counts [Kinds]uint64

// Map returns the kinds of which there are some, by name; nil: none.
func (c Counts) Map() map[string]uint64 {
	var m map[string]uint64
	for k, n := range c {
		if n == 0 {
			continue
		}
		if m == nil {
			m = map[string]uint64{}
		}
		m[Names[k]] = n
	}
	return m
}
