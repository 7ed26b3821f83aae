// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/pcie"
)

// stayNear makes the calling thread, and those that it starts, run on the processors of the GPUs'
// NUMA nodes, as far as it may use them. If the kernel doesn't tell them, or none may be used,
// nothing changes. Buffers of copies (bounced) are then near too, as memory comes from the node of
// the thread that first touches it.
func stayNear(folder string, gpus []pcie.Address) error {
	if folder == "" {
		folder = pcie.Devices
	}
	var near, may unix.CPUSet
	for _, at := range gpus {
		if !pcie.Near(folder, at, &near) {
			return nil
		}
	}
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	all := may.Count()
	for i := range may {
		may[i] &= near[i]
	}
	if n := may.Count(); n == 0 || n == all {
		return nil
	}
	return unix.SchedSetaffinity(0, &may)
}
