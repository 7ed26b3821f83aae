// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// openGate takes over the files of the VM's gate. Without files there is none.
func openGate(slot int, files []int) (*gate.Page, error) {
	if len(files) == 0 {
		return nil, nil
	}
	if slot < 0 || slot >= gate.Slots {
		handover.CloseFiles(files)
		return nil, fmt.Errorf("open gate: no slot %d", slot)
	}
	return gate.Open(files[0], files[1], files[2])
}
