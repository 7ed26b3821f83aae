// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend/wire"

// Device attributes that this package reads (CUdevice_attribute).
const (
	attributeMultiprocessors          = 16
	attributePCIBus                   = 33
	attributePCIDevice                = 34
	attributePCIDomain                = 50
	attributeMajor                    = 75 // of the compute capability
	attributeThreadsOfMultiprocessor  = 39
	attributeHostPointerForRegistered = 91
	attributePageableMemoryAccess     = 88
	attributeReadOnlyHostRegister     = 113
)

// mask replaces what a guest must not be told. An attribute that the driver doesn't know stays unknown.
func mask(d *wire.SnapshotDevice) {
	for _, m := range masked {
		if d.AttributeResult[m.attribute] == 0 {
			d.Attribute[m.attribute] = m.value
		}
	}
}
