// SPDX-License-Identifier: Apache-2.0

// Package shortage is about commands that lack device memory which their VM has, but not now: one
// that takes turns with a GPU's memory may have less for a time than its bound allows. Such a
// command stays in the ring, and nothing is executed behind it, until the device process says that
// there is room or that there will be none. So the worker can be drained meanwhile, and its own
// memory moved out.
//
// # Who owns what
//
// The worker's loop owns a Shortage, and tries the command again when nothing waits any more.
//
// # Who may lie
//
// The device process is believed. A guest that asks for memory again and again has its command
// asked for once.
package shortage

import "github.com/paracuda/paracuda/gpubackend"

// Config is what a Shortage needs.
type Config struct {
	// Lacks is how much memory the command that was just executed lacked for that reason alone; 0:
	// none. It is told once.
	Lacks func() uint64
	// Ask asks for so much.
	Ask func(bytes uint64) error
}

// Shortage is what the worker waits for.
type Shortage struct {
	Config
	waits   bool // a command stays in the ring
	refused bool // it is to fail
}

// New returns a Shortage of a worker that lacks nothing.
func New(c Config) *Shortage { return &Shortage{Config: c} }

// Waits says whether a command stays in the ring.
func (s *Shortage) Waits() bool { return s.waits }

// retried are the commands that change nothing when there is no memory for them, so that they can
// be executed again.
var retried = map[gpubackend.Op]bool{
	gpubackend.OpMemAlloc: true, gpubackend.OpMemAllocAsync: true, gpubackend.OpMemCreate: true,
}

// Stops is called when there was no memory for a command. It asks for room if that is what it
// lacked, and says whether the command stays in the ring. Otherwise it fails.
func (s *Shortage) Stops(op gpubackend.Op) bool {
	lacks := s.Lacks()
	if s.refused {
		s.refused = false
		return false
	}
	if lacks == 0 || !retried[op] {
		return false
	}
	s.waits = s.Ask(lacks) == nil
	return s.waits
}

// Answered has the command executed again, and fail if it was refused what it lacks.
func (s *Shortage) Answered(refused bool) { s.refused, s.waits = s.waits && refused, false }
