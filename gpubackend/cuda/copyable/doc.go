// SPDX-License-Identifier: Apache-2.0

// Package copyable says which addresses a guest may have copied and filled. A guest names them as
// they are. The driver takes an address that it doesn't know for ordinary memory of this process,
// and copies it by the processor: so it is given none but those that are the guest's.
//
//	spans.go     ranges of addresses, looked up by address
//	copyable.go  what they are of, and what the driver says of others
//
// Whoever shows memory to the guest enters it, and removes it before it is gone.
package copyable
