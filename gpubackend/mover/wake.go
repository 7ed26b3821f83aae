// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/socket"
)

// newWake makes a pair of sockets, by which other goroutines wake the loop: as a worker does by
// that of its link.
func newWake() (mine, its int, err error) {
	return socket.Descriptors(socket.Stream | socket.NonBlocking)
}

// notify wakes the other end. If there is no room for a byte, the other end is awake already.
func notify(fd int) { _ = unix.Sendto(fd, []byte{1}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) }

// drains is how often drain reads at a time, so that endless sending doesn't hold up the reader.
const drains = 16

// drain takes what has come, within bounds. It returns false when the other end is closed.
func drain(fd int) bool {
	var b [1024]byte
	for range drains {
		n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
		if err != nil {
			return true
		}
		if n == 0 {
			return false
		}
		if n < len(b) {
			return true
		}
	}
	return true
}
