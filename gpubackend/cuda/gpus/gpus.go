// SPDX-License-Identifier: Apache-2.0

// Package gpus has what all rooms know of the host's GPUs: their handles in the driver, and the few
// attributes that others decide by. The list is empty until the driver is opened, and doesn't
// change after that. Nothing here is a secret or a guest's.
package gpus

import (
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/pcie"
)

// Max bounds the GPUs of one process.
const Max = ledger.GPUs

// GPU is one of the host's GPUs.
type GPU struct {
	Native           uint64       // CUdevice
	ID               uint64       // in a ledger
	Place            pcie.Address // on the host's bus
	Total            uint64       // memory that a guest may have
	Threads          uint64       // that it can have at a time
	ReadOnlyRegister bool         // host memory can be registered to be read only
}

// List is all GPUs.
type List struct{ all []GPU }

// Set is called once, when the driver was opened.
func (l *List) Set(all []GPU) { l.all = all }

// Len is how many there are.
func (l *List) Len() int { return len(l.all) }

// At is GPU i, which there is.
func (l *List) At(i int) *GPU { return &l.all[i] }

// Find returns the position of a device that a guest names by its number.
func (l *List) Find(dev uint64) (int, bool) {
	i := int(int32(uint32(dev)))
	return i, i >= 0 && i < len(l.all)
}
