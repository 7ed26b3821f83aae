// SPDX-License-Identifier: Apache-2.0

package link

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Figures are what a device process reports of its VM.
type Figures struct {
	Memory    map[string]uint64 `json:"memory,omitempty"`   // bytes of all its GPUs, by kind
	OnEach    []uint64          `json:"on_each,omitempty"`  // bytes of each, in the VM's order
	Counters  map[string]uint64 `json:"counters,omitempty"` // since the VM began
	Processes []Process         `json:"processes,omitempty"`
	State     string            `json:"state,omitempty"` // of a suspended VM, else empty
	Faults    []Fault           `json:"faults,omitempty"`
}

// Fault is the answer of a GPU that is broken or gone.
type Fault struct {
	GPU    int   `json:"gpu"`    // in the VM's order
	Result int32 `json:"result"` // CUDA's
	Time   int64 `json:"time"`   // since 1970, in seconds
}

// Process is a guest process that uses the GPU.
type Process struct {
	PID      int32             `json:"pid"` // in the guest
	Name     string            `json:"name"`
	Memory   map[string]uint64 `json:"memory,omitempty"`   // bytes of the GPU, by kind
	Counters map[string]uint64 `json:"counters,omitempty"` // since it began
}

// Bounds of figures: what an arbiter keeps of a VM, and sends in one message.
const (
	maxKinds           = 16
	maxCounters        = 48 // of a VM
	maxProcessCounters = 12
	maxProcesses       = 64
	maxName            = 32 // of a process
	maxFaults          = 64
	maxGPUs            = 16
	maxKey             = 32
)

// Clean drops what is beyond the bounds, and characters that a terminal might obey: names come from
// guests.
func (f *Figures) Clean() {
	f.Memory, f.Counters = clean(f.Memory, maxKinds), clean(f.Counters, maxCounters)
	if f.State = Plain(f.State); !plainKey(f.State) {
		f.State = ""
	}
	f.OnEach = f.OnEach[:min(len(f.OnEach), maxGPUs)]
	f.Faults = f.Faults[:min(len(f.Faults), maxFaults)]
	f.Processes = f.Processes[:min(len(f.Processes), maxProcesses)]
	for i := range f.Processes {
		p := &f.Processes[i]
		p.Name = Plain(p.Name)
		p.Memory, p.Counters = clean(p.Memory, maxKinds), clean(p.Counters, maxProcessCounters)
	}
}

// clean drops keys that aren't made of small letters, digits and _, and those beyond a number.
func clean(m map[string]uint64, most int) map[string]uint64 {
	maps.DeleteFunc(m, func(key string, _ uint64) bool { return !plainKey(key) })
	if len(m) > most {
		for _, key := range slices.Sorted(maps.Keys(m))[most:] {
			delete(m, key)
		}
	}
	return m
}

func plainKey(key string) bool {
	if key == "" || len(key) > maxKey {
		return false
	}
	for _, r := range key {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
			return false
		}
	}
	return true
}

// Plain makes a guest's text fit for a terminal or a label: printable and short.
func Plain(text string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		switch n++; {
		case n > maxName:
			return -1
		case !unicode.IsPrint(r) || r == unicode.ReplacementChar:
			return '?'
		}
		return r
	}, text)
}
