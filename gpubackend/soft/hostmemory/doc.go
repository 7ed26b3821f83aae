// SPDX-License-Identifier: Apache-2.0

// Package hostmemory says which memory of this process kernels and copies of a software GPU may
// reach, beside the device's own: what was registered, at the addresses that it has here.
//
// Unregistering waits for work that has begun: the guest gets its pages back. Work that comes later
// finds that the range is gone.
package hostmemory
