// SPDX-License-Identifier: Apache-2.0

// Package saved has what a worker writes about itself to the record of its program: the section
// "state" (package savedvm), as JSON.
//
// # Who may lie
//
// Who wrote the record: what Decode returns is well-formed and bounded, no more. It is checked like
// anything that a guest says.
package saved

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/exports"
	"github.com/paracuda/paracuda/gpubackend/worker/graphs"
	"github.com/paracuda/paracuda/gpubackend/worker/hostmemory"
	"github.com/paracuda/paracuda/gpubackend/worker/memory"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
	"github.com/paracuda/paracuda/gpubackend/worker/sharing"
	"github.com/paracuda/paracuda/gpubackend/worker/textures"
)

// EventChain is an EVENT chain of the guest's.
type EventChain struct {
	Head   uint16
	Record uint64
}

// Map is pinned pages that commands may name.
type Map struct {
	ID      uint32
	Head    uint16
	Bytes   uint64
	Address uint64
	Offset  uint64
	Flags   uint32
	Runs    []wire.Run
	Voucher uint32 `json:",omitempty"`
	Kept    bool
}

// Queue is the channel's virtqueue, and what came through it.
type Queue struct {
	Base     uint16
	InFlight []uint16
	Arena    []wire.Run // where it is in guest memory
	Position arena.Position
	Events   []EventChain
	Due      bool // the guest's threads are to be woken
	Maps     []Map
	KeptMaps int
	Gone     []uint32 // maps that the guest is yet to be told are given back
}

// Allocation is device memory, in the context of that handle.
type Allocation struct{ Address, Bytes, Context uint64 }

// Code is where code has its variables, and the handles that it has. Either Module or Library is 0.
type Code struct{ Address, Module, Library, Context uint64 }

// Array is where the array of that handle has its memory.
type Array struct{ Address, Array uint64 }

// EventTime is the time of the event with that handle, in the context with that handle; 0: the
// device didn't say.
type EventTime struct {
	Event   uint64
	Ago     int64
	Context uint64
}

// State is the state of a worker.
type State struct {
	Environment [][]byte // of the guest process: its variables may have any bytes
	Inventory   []byte   // of its GPUs, by which hello.Suits knows them: it needs the same ones
	Queue       Queue
	HostFuncs   uint32 // how many host functions it was told of
	Allocations []Allocation
	Codes       []Code
	Events      []EventTime
	Pools       pools.Saved
	Virtual     memory.Saved
	Pinned      hostmemory.Saved
	Graphs      graphs.Saved
	Arrays      []Array
	Textures    []textures.SavedObject
	Shared      sharing.Saved
	Imports     []exports.Saved `json:",omitempty"`
	// Failed is the error with which the program's context has failed; then the program has nothing
	// else on the GPU (package failure).
	Failed gpubackend.Result `json:",omitempty"`
	Pieces []gpubackend.Piece
	// Ahead says that memory was copied before. Changed is what has changed since, which is all
	// that the record has.
	Ahead   bool               `json:",omitempty"`
	Changed []gpubackend.Piece `json:",omitempty"`
}

// ErrState is wrapped by all errors that say what is wrong with a state.
var ErrState = errors.New("the state of a program")

// ErrRecord is wrapped by the error for a record that doesn't suit the worker that reads it.
var ErrRecord = errors.New("the record doesn't suit")

// Encode is the reverse of Decode.
func (s *State) Encode() ([]byte, error) {
	b, err := json.Marshal(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("save %w: %w", ErrState, err)
	case len(b) > savedvm.MaxState:
		return nil, fmt.Errorf("%w takes more than %d bytes", ErrState, savedvm.MaxState)
	}
	return b, nil
}

// Decode reads a state, which must have all that this version writes and nothing else.
func Decode(b []byte) (*State, error) {
	s, d := &State{}, json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("read %w: %w", ErrState, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w is followed by something", ErrState)
	}
	return s, nil
}
