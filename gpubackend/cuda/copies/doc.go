// SPDX-License-Identifier: Apache-2.0

// Package copies queues copies and fills. A guest names both sides by address: the driver gets none
// that package copyable doesn't know to be the guest's.
//
//	copies.go     one copy, of bytes or of rows
//	peers.go      copies from one GPU to another
//	elsewhere.go  copies between the host and a GPU that isn't current
//	batch.go      copies that need no order among themselves
//	fill.go       fills
//
// A slice that is copied is read or written by C during the call.
package copies
