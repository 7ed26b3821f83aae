// SPDX-License-Identifier: Apache-2.0

// Package link makes what joins a worker to its VM's mover. The device process makes it and gives
// each its side, since a worker receives files from nobody else.
//
// A Half owns its files until they are handed on. Both processes write to the ring, and neither
// believes what the other has written.
package link

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/socket"
)

// Half is what one of the two has.
type Half struct {
	Conn int // for messages: a SEQPACKET socket
	Ring int // memory for requests and completions, which is the same file for both
	Wake int // wakes the other one, and is readable when the other one wakes this one
}

// None is no Half.
var None = Half{-1, -1, -1}

// RingBytes is the size of a ring (gpubackend/mover/ring.go).
const RingBytes = 4096 + 1024*16 + 1<<20

// New makes both sides, with a ring that neither can cut short nor grow.
func New() (worker, mover Half, err error) {
	worker, mover = None, None
	if worker.Conn, mover.Conn, err = socket.Descriptors(socket.Packets); err == nil {
		// An eventfd won't do: both would share its file, so that one could make the other's reads
		// and writes block.
		worker.Wake, mover.Wake, err = socket.Descriptors(socket.Stream | socket.NonBlocking)
	}
	if err == nil {
		worker.Ring, err = memfd.New("paracuda-mover", RingBytes)
	}
	if err == nil {
		mover.Ring, err = unix.FcntlInt(uintptr(worker.Ring), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err != nil {
		worker.Close()
		mover.Close()
		return None, None, fmt.Errorf("join a worker to the mover: %w", err)
	}
	return worker, mover, nil
}

// Of is the Half that came with a message.
func Of(n *handover.Named) Half { return Half{n.Conn, n.Ring, n.Wake} }

// Put adds a Half to a message, and returns its files.
func (e Half) Put(m *handover.Message) []int {
	m.Files.Conn, m.Files.Ring, m.Files.Wake = true, true, true
	return []int{e.Conn, e.Ring, e.Wake}
}

// Whole says whether it has all files.
func (e Half) Whole() bool { return e.Conn >= 0 && e.Ring >= 0 && e.Wake >= 0 }

// Close closes its files.
func (e Half) Close() { handover.CloseFiles([]int{e.Conn, e.Ring, e.Wake}) }
