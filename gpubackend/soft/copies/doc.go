// SPDX-License-Identifier: Apache-2.0

// Package copies does the copies and fills of a software GPU.
//
// Addresses come from the guest. They are checked when a call is made, and again when its task
// begins, since registered memory may be gone by then. While its stream is busy a copy of a source
// is kept; the memory of these copies is bounded.
//
// Files: copies.go (the room, what copies and fills touch), copy.go, fill.go, array.go (copies
// whose sides are arrays).
package copies
