// SPDX-License-Identifier: Apache-2.0

package device

import (
	"runtime/debug"

	"github.com/paracuda/paracuda/gpubackend/loglimit"
)

// guard runs a part of the device, and says whether it came to its end. A front end can't go on
// with another device process: a fault of one part must cost the guest that part, a request or a
// program, and no more.
func (d *Device) guard(part string, f func()) (done bool) {
	defer func() {
		if r := recover(); r != nil {
			loglimit.Keep(d.log).WithField("stack", string(debug.Stack())).Errorf("%s panicked: %v",
				part, r)
			done = false
		}
	}()
	f()
	return true
}
