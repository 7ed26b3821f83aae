// SPDX-License-Identifier: Apache-2.0

// Package copyable says which addresses a guest may have copied and filled. They come from the
// guest unchanged. The driver takes an address that it doesn't know for ordinary memory of this
// process, which the processor copies: so it must be given only addresses that are the guest's.
//
//	spans.go     ranges of addresses, looked up by address
//	copyable.go  what they are of, and what the driver says of others
//	told.go      addresses that stand for others, which the guest doesn't know
//
// Rooms that give memory to the guest enter it here, and remove it before it is gone.
package copyable
