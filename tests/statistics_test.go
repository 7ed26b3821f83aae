// SPDX-License-Identifier: Apache-2.0

package tests

import "github.com/paracuda/paracuda/gpubackend/device/admin"

// statistics asks the device process behind a control socket what `paracuda stats --json` asks it.
// Tests that wait for something ask many times a second: a process for each question would take
// more of the processor than the answer. nil: no device process answers.
func statistics(socket string) *admin.Answer {
	a, err := admin.Ask(socket, admin.Request{Stats: true})
	if err != nil {
		return nil
	}
	return a
}
