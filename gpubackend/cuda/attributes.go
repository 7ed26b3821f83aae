// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend/wire"

// mask replaces attributes that a guest must not be told. An attribute that the driver doesn't know
// stays unknown.
func mask(d *wire.InventoryDevice) {
	for _, m := range masked {
		if d.AttributeResult[m.attribute] == 0 {
			d.Attribute[m.attribute] = m.value
		}
	}
}
