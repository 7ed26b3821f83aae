// SPDX-License-Identifier: Apache-2.0

// Package savedstate is what a VM takes along when it is saved or migrated without programs: what
// its driver was told when it greeted the device, and is going to rely on.
//
// # Who may lie
//
// Whoever brings the state. It has a fixed size and a checksum, and each number is compared with
// the device's own.
package savedstate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// State is what is saved.
type State struct {
	Magic      [8]byte
	Format     uint32
	Version    uint32 // of the protocol that the driver speaks
	Generation uint32
	Channels   uint32
	ArenaBytes uint32
	Sequence   uint32 // of the settings
	Greeted    uint32 // there is a driver
	Sum        uint32 // CRC-32 of all before it
}

var magic = [8]byte{'p', 'a', 'r', 'a', 'c', 'u', 'd', 'a'}

// Bytes is the size of a state.
const Bytes = 40

const format = 1

// ErrState marks a state that can't be gone by.
var ErrState = errors.New("the saved VM's state")

// New is a state, in the format of this version.
func New(s State) *State {
	s.Magic, s.Format = magic, format
	return &s
}

// Encode is the state as it is saved.
func (s *State) Encode() []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, s) // of a fixed size: it can't fail
	binary.LittleEndian.PutUint32(b[Bytes-4:], crc32.ChecksumIEEE(b[:Bytes-4]))
	return b
}

// Read reads a state, and nothing behind it.
func Read(r io.Reader) (*State, error) {
	var b [Bytes + 1]byte
	n, err := io.ReadFull(r, b[:])
	switch {
	case err == nil:
		return nil, fmt.Errorf("%w is longer than %d bytes", ErrState, Bytes)
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	case n != Bytes:
		return nil, fmt.Errorf("%w has %d bytes, not %d", ErrState, n, Bytes)
	}
	s := &State{}
	_, _ = binary.Decode(b[:Bytes], binary.LittleEndian, s) // it is long enough
	switch {
	case s.Magic != magic:
		return nil, fmt.Errorf("%w is not one of Paracuda's", ErrState)
	case s.Format != format:
		return nil, fmt.Errorf("%w has format %d, this version reads %d",
			ErrState, s.Format, format)
	case s.Sum != crc32.ChecksumIEEE(b[:Bytes-4]):
		return nil, fmt.Errorf("%w is damaged: its checksum is wrong", ErrState)
	}
	return s, nil
}

// Suits says whether a device whose own state is that can go on where the saved one stopped.
func (s *State) Suits(here *State) error {
	if s.Greeted == 0 {
		return nil // whatever comes greets this device
	}
	for _, x := range []struct {
		what      string
		saved, is uint32
		fix       string
	}{
		{"protocol version", s.Version, here.Version, "use the same version of paracuda"},
		{"channels", s.Channels, here.Channels, "start the device with the same channels"},
		{"arena size", s.ArenaBytes, here.ArenaBytes, "start the device with the same arena"},
	} {
		if x.saved != x.is {
			return fmt.Errorf("%w has %s %d, this device %d: %s",
				ErrState, x.what, x.saved, x.is, x.fix)
		}
	}
	return nil
}
