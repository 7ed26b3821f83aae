// SPDX-License-Identifier: Apache-2.0

package handover

// Protocol is the version of what a device process and its children say to each other. A device
// process goes on only with children of its own version. It changes with the meaning of a message,
// or of the memory that they share.
const Protocol = 6

// Standing is the state of a worker, or of the mover, when another device process takes it over.
type Standing struct {
	Protocol int  // its number
	Paused   bool `json:",omitempty"` // the device process has the worker's queue
	Still    bool `json:",omitempty"` // it was drained, and begins nothing
	Out      bool `json:",omitempty"` // its memory is moved out
	Mover    bool `json:",omitempty"` // it has a connection to the mover
	Asks     bool `json:",omitempty"` // it asks for what it maps of the guest's memory
	// how much that is; or, if it is in again, how much the image has that still holds
	Image uint64 `json:",omitempty"`
	// how much of an image it keeps, or will when it goes on
	Kept uint64 `json:",omitempty"`
}
