// SPDX-License-Identifier: Apache-2.0

package virtqueue

import (
	"errors"
	"fmt"
)

// Reasons for a ChainError.
var (
	ErrTooLong     = errors.New("chain has too many descriptors")
	ErrTooLarge    = errors.New("chain describes 4 GiB or more")
	ErrNext        = errors.New("next descriptor is outside the table")
	ErrOrder       = errors.New("device-readable descriptor after a device-writable one")
	ErrNoIndirect  = errors.New("indirect descriptor without VIRTIO_F_INDIRECT_DESC")
	ErrNested      = errors.New("indirect descriptor inside an indirect table")
	ErrIndirect    = errors.New("descriptor is both indirect and chained")
	ErrIndirectLen = errors.New("bad length of an indirect table")
)

// Reasons for a RingError; guestmem.ErrFault is another.
var (
	ErrAvailIndex = errors.New("avail index moved by more than the queue size")
	ErrHead       = errors.New("head is outside the descriptor table")
	ErrInFlight   = errors.New("head was made available twice")
)

// Errors of the device's own making.
var (
	ErrConfig      = errors.New("bad queue configuration")
	ErrNotInFlight = errors.New("head is not in flight")
	ErrWritten     = errors.New("more bytes reported written than the chain can hold")
	ErrClosed      = errors.New("queue is closed")
)

// ChainError says that the driver made a malformed chain available. The head counts as in flight:
// Push(Head, 0) returns it to the driver. The queue goes on.
type ChainError struct {
	Head   uint16 // first descriptor of the chain
	Desc   uint16 // descriptor at fault, an index into the table that it is in
	Reason error  // one of the reasons above, or guestmem.ErrRange
}

// Error implements error.
func (e *ChainError) Error() string {
	return fmt.Sprintf("chain %d: descriptor %d: %v", e.Head, e.Desc, e.Reason)
}

// Unwrap gives the reason.
func (e *ChainError) Unwrap() error { return e.Reason }

// RingError says that the queue is broken: the driver must reset it.
type RingError struct {
	Op     string // what the queue was doing
	Reason error
}

// Error implements error.
func (e *RingError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Reason) }

// Unwrap gives the reason.
func (e *RingError) Unwrap() error { return e.Reason }
