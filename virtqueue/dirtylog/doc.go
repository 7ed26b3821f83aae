// SPDX-License-Identifier: Apache-2.0

// Package dirtylog tells a front end which pages of a guest a device has written to, so that a VM
// can be migrated while it runs.
//
// The log is a bitmap in a file that the front end shares: a bit for each page of 4 KiB of
// guest-physical addresses, from address 0 on, the lowest bit of a byte first. The device sets each
// bit after the write that it stands for, and the front end reads and clears them, both atomically.
//
// # Trust
//
// The front end made the file and may do anything with its contents: they are never read back. It
// may cut the file short unless that is sealed. A bit that can't be set because of that, or because
// it lies behind the end of the log, makes the log Lost: it no longer shows all writes, and whoever
// migrates the VM must not rely on it.
//
// # Concurrency
//
// A Switch has the log of a process, or none, and any goroutine may change it while others mark. A
// write that ends after Set has returned is marked in the new log. Close waits for marks that are
// under way.
package dirtylog
