// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/managed"
)

// UnsavableCode implements gpubackend.Driver. The driver chooses where variables are, and chooses
// other places in another process.
func (x *Code) UnsavableCode(image []byte, mem *budget.Account) string {
	why, err := managed.Stays(image, x.architecture(), mem)
	if err != nil {
		return "its code can't be read: " + err.Error()
	}
	return why
}
