// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// counted is what the guest process makes this one take: host memory, and the GPUs' memory.
type counted struct {
	host   *budget.Budget
	shared *ledger.HostAccount // from which host takes
	device *ledger.Process
	images *atomic.Uint64 // bytes of device memory that is moved out
}

func newCounted() counted {
	shared := &ledger.HostAccount{}
	return counted{budget.Of(0, shared), shared, ledger.NewProcess(), new(atomic.Uint64)}
}

// join makes memory count in the VM's ledger, whose file came with a message. Without a file
// nothing bounds the memory. What counted in another entry moves to this one.
func (c counted) join(entry, file int) error {
	if file < 0 {
		return nil
	}
	if entry < 0 || entry >= ledger.Entries {
		handover.CloseFiles([]int{file})
		return fmt.Errorf("join the ledger: no entry %d", entry)
	}
	page := c.device.Page()
	if page != nil {
		handover.CloseFiles([]int{file})
	} else {
		var err error
		if page, err = ledger.Open(file); err != nil {
			return fmt.Errorf("join the ledger: %w", err)
		}
	}
	c.device.Join(page, entry)
	c.shared.Join(page, entry)
	return nil
}
