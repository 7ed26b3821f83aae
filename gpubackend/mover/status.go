// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
)

// status is how a request ended, on the ring: one of the numbers below, or deviceStatus + a CUDA
// result.
type status uint32

const (
	statusDone status = iota
	statusRange
	statusFault
	statusVoucher
	deviceStatus status = 1 << 16
)

// Errors of a copy.
var (
	// ErrRange means that a run isn't guest memory, or that the staging memory is shorter.
	ErrRange = errors.New("outside guest memory or staging memory")
	// ErrFault means that memory vanished during the copy.
	ErrFault = errors.New("memory was cut short during the copy")
	// ErrVoucher means that the guest's driver doesn't vouch for the pages.
	ErrVoucher = errors.New("pages for which the guest's driver doesn't vouch")
	// ErrDevice means that the GPU failed.
	ErrDevice = errors.New("copy failed on the device")
	// ErrClosed means that the mover is gone.
	ErrClosed = errors.New("mover has closed the connection")
)

// resultFault stands for a fault under guardedCopy among results.
const resultFault gpubackend.Result = -1

func statusOf(r gpubackend.Result) status {
	switch r {
	case gpubackend.Success:
		return statusDone
	case resultFault:
		return statusFault
	}
	return deviceStatus + status(uint16(r))
}

// refusal is the value of an answer that refuses memory.
func refusal(why error) uint64 {
	if r := gpubackend.ResultIn(why); r != gpubackend.Success {
		return uint64(statusOf(r))
	}
	return uint64(statusRange)
}

func (s status) err() error {
	switch {
	case s == statusDone:
		return nil
	case s == statusRange:
		return ErrRange
	case s == statusFault:
		return ErrFault
	case s == statusVoucher:
		return ErrVoucher
	case s >= deviceStatus:
		return fmt.Errorf("%w: %w", ErrDevice, gpubackend.Result(s-deviceStatus).Err())
	}
	return fmt.Errorf("status %d: %w", s, errProtocol)
}
