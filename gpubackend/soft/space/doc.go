// SPDX-License-Identifier: Apache-2.0

// Package space knows the addresses that kernels and copies of a software GPU may reach.
//
// Device memory is a file in memory, mapped at the addresses by which guests know it, so that a
// device pointer, once checked, is a pointer. What may be reached (segments of device memory,
// registered host memory) is an immutable table that is swapped as a whole. The window of addresses
// stays mapped for the life of the device: a kernel that still uses what it looked up before a
// segment was given back reads zeros at worst.
//
// Copies reach what any GPU reaches, kernels what their own GPU reaches (View).
//
// Files: space.go, table.go (what may be reached), view.go (by kernels of one GPU),
// window_unsafe.go (mappings, and the bytes at an address: all that is unsafe).
//
// An address that comes from a guest is looked up or covered before Bytes or Pointer see it. Lookup
// and Covers may be called on any goroutine; all that changes something, on the device's alone.
package space
