// SPDX-License-Identifier: Apache-2.0

// Package memory owns the device memory of software GPUs: who has which part of it, when it may be
// used again, and how much there is left. The bytes, and who may reach them, are package space's.
//
// MemFree takes effect at once for the caller; the memory is reused when the work that was queued
// before is done (DeferFree). An allocation that fails waits for such memory (Alloc), unless only
// the caller could make the work go on.
//
// Files: memory.go (allocations), mapping.go (virtual memory management: addresses and memory
// apart), staging.go (memory that the mover maps), moving.go (out and in), saved.go (what lies
// where, for another device), peers.go (GPUs that reach the memory of others).
//
// Addresses and sizes come from the guest, and are checked. Files come from other processes: they
// must be sealed. A Memory belongs to one goroutine, but for its Space.
package memory
