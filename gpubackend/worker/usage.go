// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// usage tells the guest what its VM has of the GPUs: by the VM's ledger, as the operator is told.
type usage struct {
	accounts *ledger.Process
	gpus     []uint64 // ids, by ordinal
}

// run tells how busy a GPU is kept, and the next process that has memory of it.
func (u *usage) run(c *call.Call, a command.Usage) gpubackend.Result {
	page := u.accounts.Page()
	switch {
	case a.Device >= uint64(len(u.gpus)):
		return gpubackend.InvalidDevice
	case page == nil:
		return gpubackend.NotSupported
	}
	var answer command.UsageAnswer
	if percent, known := page.Busy(); known {
		answer.Busy = 1 + uint64(percent)
	}
	holder, h, ok := page.Holder(u.gpus[a.Device], int(min(a.From, ledger.Workers)))
	if ok {
		answer.Next, answer.Pid, answer.Bytes = uint64(holder)+1, uint64(h.PID), h.Sum()
	}
	c.Put(answer)
	return gpubackend.Success
}
