// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/pcie"
)

// stayNear has the calling thread, and those that it starts, run on the processors that are near
// GPUs, as far as it may use them: those of their NUMA nodes. What the kernel doesn't tell, or
// where none of these may be used, changes nothing. What copies by way of the processor's memory
// (bounced) is then near, too, as memory comes from the node of who uses it first.
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
