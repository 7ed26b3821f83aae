// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/paracuda/paracuda/gpubackend/ledger"
	softusage "github.com/paracuda/paracuda/gpubackend/soft/usage"
)

// usageOf returns what asks a GPU's driver about the memory of processes.
func usageOf(gpu string) func(pids []int) (ledger.Usage, error) {
	if gpu == gpuSoft {
		return softusage.Ask
	}
	return nil
}
