// SPDX-License-Identifier: Apache-2.0

// Package moves is the interface of a worker to its VM's mover: copies between guest pages and
// device memory that the worker lends. Package mover has the process and the connection to it.
//
// A Mover belongs to the worker's loop. The mover process is trusted. It knows nothing about the
// guest process, and checks the requests of the worker, which executes a guest's commands.
package moves

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// ErrRefused is Attach's error if the mover can't map the memory. The error may wrap what the GPU's
// driver has answered, too. Any other error says that the mover is gone.
var ErrRefused = errors.New("refused by the mover, whose log says why")

// Mover is the worker's end of its connection to the mover process, which copies between guest
// pages and memory that the worker lends it (package mover).
type Mover interface {
	// Attach lends bytes of the memory behind fd, from start on.
	Attach(fd int, start, bytes uint64) (staging uint32, err error)
	// Detach takes it back, and waits for the copies that use it.
	Detach(staging uint32) error
	// Start starts a copy. It doesn't wait.
	Start(m *Move) error
	// Poll appends the copies that have ended.
	Poll(dst []Completion) ([]Completion, error)
	// FD is readable when Poll has news.
	FD() int
	// Close ends the connection.
	Close() error
}

// Move is one copy between guest pages and staging memory.
type Move struct {
	ID       uint64
	Staging  uint32
	Offset   uint64 // in the staging memory
	ToDevice bool
	Runs     []wire.Run
	// Where Runs are in the map for whose pages a voucher is, if that isn't 0: the mover looks them
	// up by these, and doesn't believe Runs. Each place is one or more whole runs of Runs.
	Voucher uint32
	Places  []Place
}

// Place is where bytes of a map are.
type Place struct {
	Run    uint32 // of the map
	Offset uint64 // in it
	Bytes  uint64
}

// Completion is the end of a copy.
type Completion struct {
	ID  uint64
	Err error // may wrap what the GPU's driver has answered
}
