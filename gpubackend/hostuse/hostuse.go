// SPDX-License-Identifier: Apache-2.0

// Package hostuse tells how much of the host's memory a process has, as the kernel counts it. The
// process has no say in that, but can have memory that isn't its own in the kernel's eyes: files in
// memory that it doesn't map, and what sockets hold.
//
// # Who owns what
//
// A Process owns a descriptor of a file in /proc. That is opened when the process begins, as long
// as others may still look into it, and can be read until the process ends; its number is never
// another process's.
package hostuse

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Bytes is how much a process has.
type Bytes struct {
	// Private is no other process's, in memory or swapped out, with what the kernel keeps for it:
	// its page tables and its threads. A process that reads addresses that nobody has written has
	// page tables and nothing else.
	Private uint64
	Shared  uint64 // that it has mapped of memory that others can have, too
	// Files is what files in memory have that were made for it, mapped or not, whoever has them.
	// The kernel doesn't say that of a process: who makes them does.
	Files uint64
}

// Process is one that is watched.
type Process struct{ status *os.File }

// Open begins to watch a process.
func Open(pid int) (*Process, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, fmt.Errorf("watch a process's memory: %w", err)
	}
	return &Process{f}, nil
}

// Close ends that.
func (p *Process) Close() { p.status.Close() }

// mostStatus is more than the kernel writes.
const mostStatus = 16 << 10

// Read reads how much it has now. It is an error when the process has ended.
func (p *Process) Read() (Bytes, error) {
	text := make([]byte, mostStatus)
	n, err := p.status.ReadAt(text, 0) // the text is shorter
	if n == 0 {
		return Bytes{}, fmt.Errorf("read a process's memory: %w", err)
	}
	return parse(text[:n])
}

// Of reads how much a process has.
func Of(pid int) (Bytes, error) {
	p, err := Open(pid)
	if err != nil {
		return Bytes{}, err
	}
	defer p.Close()
	return p.Read()
}

// thread is what the kernel has for one: 16 KiB of stack, and its own notes.
const thread = 32 << 10

// parse reads the lines of a status (proc(5)). The name in it is the process's choice, but is on a
// line that begins otherwise. A kernel without huge pages says nothing of them.
func parse(text []byte) (b Bytes, err error) {
	var anon, swap, tables, huge, threads uint64
	of := map[string]*uint64{"RssAnon": &anon, "VmSwap": &swap, "RssShmem": &b.Shared,
		"VmPTE": &tables, "HugetlbPages": &huge, "Threads": &threads}
	need := map[string]bool{"RssAnon": true, "VmSwap": true, "RssShmem": true, "VmPTE": true}
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		to := of[string(name)]
		if to == nil {
			continue
		}
		n, is := bytes.CutSuffix(bytes.TrimSpace(value), []byte(" kB"))
		if *to, err = strconv.ParseUint(string(n), 10, 50); err != nil {
			return Bytes{}, fmt.Errorf("read a process's memory: %s: %w", name, err)
		}
		if is {
			*to <<= 10
		}
		delete(need, string(name))
	}
	if len(need) > 0 { // it is about to end, and has given its memory back
		return Bytes{}, fmt.Errorf("read a process's memory: %w", os.ErrProcessDone)
	}
	b.Private = anon + swap + tables + huge + threads*thread
	return b, nil
}
