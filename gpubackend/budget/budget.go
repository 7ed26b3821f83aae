// SPDX-License-Identifier: Apache-2.0

// Package budget counts the host memory that one guest process makes its worker take, in bytes, and
// refuses what would go beyond a limit.
//
// The sizes of the worker's own structures count, before they are made: decompressed images, parsed
// code, registers of kernels, tables of handles. A structure that grows by doubling counts twice.
// Memory of the CUDA driver, garbage that isn't collected yet and what doesn't depend on the guest
// don't count.
package budget

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrExceeded says that a limit would be exceeded.
var ErrExceeded = errors.New("host memory of the process is used up (--set host-memory)")

// Budget is a limit and what counts against it. It may be used by several goroutines. A nil Budget
// has no limit and counts nothing.
type Budget struct {
	limit, used atomic.Uint64
	part        pooled
}

// New returns a budget with this limit.
func New(limit uint64) *Budget { return Of(limit, nil) }

// Of returns a budget with this limit, which also takes what counts from a pool.
func Of(limit uint64, pool Pool) *Budget {
	b := &Budget{}
	b.limit.Store(limit)
	b.part.begin(pool)
	return b
}

// SetLimit changes the limit. What is counted already stays, even above it.
func (b *Budget) SetLimit(limit uint64) {
	if b != nil {
		b.limit.Store(limit)
	}
}

// Limit is what may be taken in all.
func (b *Budget) Limit() uint64 {
	if b == nil {
		return 0
	}
	return b.limit.Load()
}

// Used is what counts at the moment.
func (b *Budget) Used() uint64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Room tells whether Take would succeed.
func (b *Budget) Room(bytes uint64) bool {
	if b == nil {
		return true
	}
	used, limit := b.used.Load(), b.limit.Load()
	return used <= limit && bytes <= limit-used && b.part.covers(&b.used, bytes)
}

// Take counts bytes, all or none: the error wraps ErrExceeded.
func (b *Budget) Take(bytes uint64) error {
	if b == nil {
		return nil
	}
	for {
		used, limit := b.used.Load(), b.limit.Load()
		if used > limit || bytes > limit-used {
			return fmt.Errorf("%d bytes more, with %d of %d used: %w", bytes, used, limit,
				ErrExceeded)
		}
		if b.used.CompareAndSwap(used, used+bytes) {
			break
		}
	}
	if !b.part.covers(&b.used, 0) {
		b.Give(bytes)
		return fmt.Errorf("%d bytes: %w", bytes, errPool)
	}
	return nil
}

// Force counts bytes that are there already, also beyond the limit.
func (b *Budget) Force(bytes uint64) {
	if b != nil {
		b.used.Add(bytes)
		b.part.force(&b.used)
	}
}

// Give gives back what Take or Force counted.
func (b *Budget) Give(bytes uint64) {
	if b != nil {
		b.used.Add(-bytes)
		b.part.shrink(&b.used)
	}
}
