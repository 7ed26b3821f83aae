// SPDX-License-Identifier: Apache-2.0

package chip

import (
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Each two of several GPUs report NVLinks between them, as many as GPUs of this kind can have. The
// links don't exist and carry nothing: they are for programs that ask.
const (
	linksOfPair      = 6        // or as many as a GPU has for each
	linksOfGPU       = 18       // at most
	linkVersion      = 6        // NVML's number of NVLink 4
	linkSpeed        = 26562    // MB/s
	linkCapabilities = 0b100101 // peers, and their atomic operations; valid
)

// joined describes the links of each of some GPUs to the others.
func joined(devices []wire.InventoryDevice) []hostgpus.GPU {
	all := make([]hostgpus.GPU, len(devices))
	for i := range devices {
		all[i] = hostgpus.Described(&devices[i])
	}
	each := min(linksOfPair, linksOfGPU/max(1, len(all)-1))
	for i := range all {
		for j := range all {
			for range each {
				if i != j {
					all[i].NVLinks = append(all[i].NVLinks, hostgpus.NVLink{
						Version: linkVersion, Capabilities: linkCapabilities, Speed: linkSpeed,
						Remote: hostgpus.RemoteGPU, At: all[j].Place,
					})
				}
			}
		}
	}
	return all
}
