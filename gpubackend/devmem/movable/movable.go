// SPDX-License-Identifier: Apache-2.0

// Package movable moves the memory of heaps out and in: the part of gpubackend.Moving that is the
// same for all devices. It owns nothing; a heap's errors become results.
package movable

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// Pieces lists what a heap has for allocations of this process. Staging memory is shared with the
// mover. What is mapped apart is another process's, unless created says that it was made here.
func Pieces(h *devmem.Heap, created func(addr uint64) bool) (list []gpubackend.Piece) {
	h.Trim()
	return Present(h, created)
}

// Present is Pieces of a heap that stays as it is.
func Present(h *devmem.Heap, created func(addr uint64) bool) (list []gpubackend.Piece) {
	for _, p := range h.Segments() {
		if p.Kind != ledger.Staging && (p.Kind != ledger.Mapped || created(p.Address)) {
			list = append(list, gpubackend.Piece{Address: p.Address, Bytes: p.Bytes})
		}
	}
	return list
}

// Leave has pieces of heaps leave: all, or none. of is the heap of an address, or nil.
func Leave(of func(addr uint64) *devmem.Heap, list []gpubackend.Piece) gpubackend.Result {
	return result(devmem.LeaveAll(of, addresses(list)))
}

// Return makes them return: all, or none.
func Return(of func(addr uint64) *devmem.Heap, list []gpubackend.Piece) gpubackend.Result {
	return result(devmem.ReturnAll(of, addresses(list)))
}

func addresses(list []gpubackend.Piece) []uint64 {
	addrs := make([]uint64, len(list))
	for i, p := range list {
		addrs[i] = p.Address
	}
	return addrs
}

func result(err error) gpubackend.Result {
	switch {
	case err == nil:
		return gpubackend.Success
	case errors.Is(err, devmem.ErrOutOfMemory):
		return gpubackend.OutOfMemory
	}
	return gpubackend.InvalidValue
}
