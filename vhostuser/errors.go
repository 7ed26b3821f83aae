// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"
)

var (
	// ErrProtocol marks a message that doesn't follow the protocol. It is refused.
	ErrProtocol = errors.New("protocol violation")

	// ErrStream marks a stream whose messages can't be told apart any more. It ends the session.
	ErrStream = errors.New("message stream is broken")

	// ErrNotShared says that the guest's memory can't be reached, and how to fix that.
	ErrNotShared = errors.New("guest memory is not shared: " +
		"start QEMU with -object memory-backend-memfd,id=mem,size=SIZE,share=on " +
		"-machine memory-backend=mem")

	// ErrRunning marks a change that a running ring doesn't allow.
	ErrRunning = errors.New("ring is running")

	// ErrNoChannel is returned by ConfigChanged while the front end hasn't given a way to reach it.
	ErrNoChannel = errors.New("front end takes no requests")

	// ErrDevice marks a panic of the Device.
	ErrDevice = errors.New("device panicked")

	// ErrSnapshot marks a Snapshot that no session can have made.
	ErrSnapshot = errors.New("bad snapshot of a session")
)

// MessageError says which message was refused, and why.
type MessageError struct {
	Request Request
	Err     error
}

// Error implements error.
func (e *MessageError) Error() string { return fmt.Sprintf("%v: %v", e.Request, e.Err) }

// Unwrap gives the reason.
func (e *MessageError) Unwrap() error { return e.Err }
