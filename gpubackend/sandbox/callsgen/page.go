// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// page is the list of system calls for readers.
func page() string {
	var b strings.Builder
	b.WriteString(`# System calls of workers, movers and device processes

What the processes of a VM may ask the host's kernel for once they serve a guest
(gpubackend/sandbox/callsgen, from whose list this page is made). Any other call ends the process,
with the signal SIGSYS. The software GPU needs little; NVIDIA's driver makes contexts, memory and
streams through files and requests of its own. Memory can be made executable by nobody: the driver's
libraries are loaded before.

| call | worker, soft | on CUDA | mover, soft | on CUDA | device process | what for |
|---|---|---|---|---|---|---|
`)
	roles := []sandbox.Role{
		sandbox.SoftWorker, sandbox.CUDAWorker, sandbox.SoftMover, sandbox.CUDAMover,
		sandbox.Device,
	}
	counts := map[sandbox.Role]int{}
	for _, c := range calls {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, role := range roles {
			switch {
			case c.roles&role == 0:
				b.WriteString(" |")
			case c.answer != 0:
				fmt.Fprintf(&b, " %s |", unix.ErrnoName(c.answer))
			default:
				b.WriteString(" yes |")
				counts[role]++
			}
		}
		fmt.Fprintf(&b, " %s |\n", c.why)
	}
	b.WriteString("| **calls that are made** |")
	for _, role := range roles {
		fmt.Fprintf(&b, " %d |", counts[role])
	}
	b.WriteString(" |\n")
	requests(&b, "NVIDIA's devices (`/dev/nvidiactl`, `/dev/nvidia0` and so on)", "NV_ESC_",
		frontIoctls)
	requests(&b, "NVIDIA's memory module (`/dev/nvidia-uvm`), none of its tools'", "UVM_",
		uvmIoctls)
	return b.String()
}

// requests writes a list of ioctls.
func requests(b *strings.Builder, of, prefix string, list []ioctl) {
	fmt.Fprintf(b, "\n## Requests to %s\nBy ioctl, of workers and movers on CUDA.\n\n", of)
	b.WriteString("| request | number | what for |\n|---|---|---|\n")
	for _, i := range list {
		fmt.Fprintf(b, "| %s%s | %#x | %s |\n", prefix, i.name, i.number, i.why)
	}
}
