// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// serving are the roles that serve guests or VMs. Each has a short list.
var serving = []sandbox.Role{
	sandbox.SoftWorker, sandbox.CUDAWorker, sandbox.SoftMover, sandbox.CUDAMover, sandbox.Device,
	sandbox.Arbiter,
}

// page is the list of system calls for readers.
func page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# System calls of each role

The system calls that processes may make once they serve a guest or a VM. This page is generated
from the lists in gpubackend/sandbox/callsgen. Any other call ends the process, with the signal
SIGSYS, and so does each call by the lists for 32 bits and x32. The software GPU needs
few calls; NVIDIA's driver makes contexts, memory and streams through files and requests of its own.
None of these calls can make memory executable: the driver's libraries are loaded before.

A worker names files of its guest's memory by descriptors from %d on. The device process decides
on each mapping of them ("asks"). No other call that reaches what a file has may name them. It
receives files by its connection to the device process alone, so that it can't pass itself, or
another worker, one of these numbers.

`, sandbox.AskedFrom)
	table(&b)
	requests(&b, "NVIDIA's devices (`/dev/nvidiactl`, `/dev/nvidia0` and so on)", "NV_ESC_",
		frontIoctls)
	requests(&b, "NVIDIA's memory module (`/dev/nvidia-uvm`), without those of tools", "UVM_",
		uvmIoctls)
	b.WriteString(`
## Keepers and starter processes
They execute programs, for which their filters also hold. So they may make the calls that those need
until each has a filter of its own: to load libraries, for NVIDIA's driver to make a context, for a
VM's namespaces. They parse nothing of a guest's. Calls that none of that needs end them, and what
they have started, at any time: for other processes' memory and descriptors, other users, the
keyring, modules, BPF, io_uring, userfaultfd, performance counters, the clock. In a worker these
filters cost most calls nothing, and 30 ns those whose arguments are checked (mmap, mprotect).

`)
	for _, g := range groups {
		list(&b, &g)
	}
	fmt.Fprintf(&b, "- **calls of later kernels** (ENOSYS): those with the numbers %d to %d\n",
		firstLater, lastLater)
	return b.String()
}

// table writes the calls that serving roles may make.
func table(b *strings.Builder) {
	b.WriteString("| call | worker, soft | on CUDA | mover, soft | on CUDA | device | arbiter | " +
		"what for |\n|---|---|---|---|---|---|---|---|\n")
	counts := make([]int, len(serving))
	for _, c := range calls {
		fmt.Fprintf(b, "| %s |", c.name)
		for i, role := range serving {
			switch {
			case c.roles&role == 0:
				b.WriteString(" |")
			case c.asked:
				b.WriteString(" asks |")
			case c.answer != 0:
				fmt.Fprintf(b, " %s |", unix.ErrnoName(c.answer))
			default:
				b.WriteString(" yes |")
				counts[i]++
			}
		}
		fmt.Fprintf(b, " %s |\n", c.why)
	}
	b.WriteString("| **calls that are made** |")
	for _, n := range counts {
		fmt.Fprintf(b, " %d |", n)
	}
	b.WriteString(" |\n")
}

// list writes the calls that roles which start programs may make for one reason.
func list(b *strings.Builder, g *group) {
	head := "**" + g.why + "**"
	if g.roles == sandbox.Keeper {
		head += " (keeper)"
	}
	if g.roles == sandbox.StarterProcess {
		head += " (starter process)"
	}
	if g.answer != 0 {
		head += " (" + unix.ErrnoName(g.answer) + ")"
	}
	line := "- " + head + ":"
	for i, c := range g.calls {
		word := " " + c.name
		if i < len(g.calls)-1 {
			word += ","
		}
		if len(line)+len(word) > 100 {
			b.WriteString(line + "\n")
			line = " "
		}
		line += word
	}
	b.WriteString(line + "\n")
}

// requests writes a list of ioctls.
func requests(b *strings.Builder, of, prefix string, list []ioctl) {
	fmt.Fprintf(b, "\n## Requests to %s\nBy ioctl, of workers and movers on CUDA.\n\n", of)
	b.WriteString("| request | number | what for |\n|---|---|---|\n")
	for _, i := range list {
		fmt.Fprintf(b, "| %s%s | %#x | %s |\n", prefix, i.name, i.number, i.why)
	}
}
