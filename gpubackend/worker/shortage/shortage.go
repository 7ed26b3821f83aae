// SPDX-License-Identifier: Apache-2.0

// Package shortage handles commands that lack device memory only for now: a VM that takes turns
// with a GPU's memory may have less for a time than its bound allows. Such a command stays in the
// ring, with all after it, until the device process says that there is room, or that there won't
// be. Meanwhile the worker can be drained, and its own memory moved out.
//
// # Who owns what
//
// The worker's loop owns a Shortage, and tries the command again when nothing waits any more.
//
// # Who may lie
//
// The device process is believed. However often a guest asks for memory, only one request is under
// way.
package shortage

import "github.com/paracuda/paracuda/gpubackend"

// Config is what a Shortage needs.
type Config struct {
	// Lacks is how much memory the last command lacked for that reason only; 0: none. It is told
	// once.
	Lacks func() uint64
	// Ask asks for that much.
	Ask func(bytes uint64) error
}

// Shortage is what the worker waits for.
type Shortage struct {
	Config
	waits   bool // a command stays in the ring
	refused bool // the command is to fail
}

// New returns a Shortage of a worker that lacks nothing.
func New(c Config) *Shortage { return &Shortage{Config: c} }

// Waits says whether a command stays in the ring.
func (s *Shortage) Waits() bool { return s.waits }

// retried are the commands that change nothing if there is no memory for them, so that they can be
// executed again.
var retried = map[gpubackend.Op]bool{
	gpubackend.OpMemAlloc: true, gpubackend.OpMemAllocAsync: true, gpubackend.OpMemCreate: true,
}

// Stops is called when there was no memory for a command. If that is only so for now it asks for
// room, and says that the command stays in the ring. Otherwise the command fails.
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

// Answered lets the command be executed again; if it was refused room it then fails.
func (s *Shortage) Answered(refused bool) { s.refused, s.waits = s.waits && refused, false }
