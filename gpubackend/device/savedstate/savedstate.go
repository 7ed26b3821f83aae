// SPDX-License-Identifier: Apache-2.0

// Package savedstate saves and loads the device's part of a VM, which the front end takes along
// when it saves or migrates its VM. That is what the driver was told when it greeted the device,
// and relies on. What the driver's handles stand for follows, if it has any (package exports), and
// the CRC-32 of that. Then the record of the VM's programs follows, if it has any (package
// savedvm). If they are in a file, a description of the file follows instead: its size as a u32,
// its bytes, and their CRC-32.
//
// # Who owns what
//
// Nothing is owned here. The front end's session saves and loads while all queues are stopped, one
// at a time.
//
// # Who may lie
//
// Who brings the state. It has a fixed size and a checksum, and each number is compared with the
// device's own.
//
// # Files
//
// savedstate.go (the format), vm.go (what can be saved, and in which order it is loaded).
package savedstate

import (
	"bytes"
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
	Programs   uint32 // what follows
	Objects    uint32 // bytes of what the driver's handles stand for, which follow, too
	Vouchers   uint64 // where the driver vouches for pages
	Sum        uint32 // CRC-32 of all before it
}

// What follows a state.
const (
	None     = 0 // nothing, as there are no programs
	InStream = 1 // the record of the programs
	InFile   = 2 // a description of the file that the programs are in
)

var magic = [8]byte{'p', 'a', 'r', 'a', 'c', 'u', 'd', 'a'}

// Bytes is the size of a state.
const Bytes = 56

const format = 4

// ErrState marks a state that can't be used.
var ErrState = errors.New("the saved VM's state")

// New makes a state in the format of this version.
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

// Read reads a state, and no more. After one that nothing follows the stream must end.
func Read(r io.Reader) (*State, error) {
	var b [Bytes]byte
	switch n, err := io.ReadFull(r, b[:]); {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w has %d bytes, not %d", ErrState, n, Bytes)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	s := &State{}
	_, _ = binary.Decode(b[:], binary.LittleEndian, s) // it is long enough
	switch {
	case s.Magic != magic:
		return nil, fmt.Errorf("%w is not one of Paracuda's", ErrState)
	case s.Format != format:
		return nil, fmt.Errorf("%w has format %d, this version reads %d",
			ErrState, s.Format, format)
	case s.Sum != crc32.ChecksumIEEE(b[:Bytes-4]):
		return nil, fmt.Errorf("%w is damaged: its checksum is wrong", ErrState)
	case s.Programs > InFile || s.Programs != None && s.Greeted == 0:
		return nil, fmt.Errorf("%w has programs in a form that this version doesn't know", ErrState)
	}
	if s.Programs == None && s.Objects == 0 {
		if err := End(r); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// EncodeObjects encodes what handles stand for, as it follows a state.
func EncodeObjects(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return binary.LittleEndian.AppendUint32(bytes.Clone(b), crc32.ChecksumIEEE(b))
}

// ReadObjects is the reverse. It reads at most so many bytes, and no more than these. If nothing
// else follows the state, the stream must end.
func (s *State) ReadObjects(r io.Reader, most uint32) ([]byte, error) {
	if s.Objects == 0 {
		return nil, nil
	}
	if s.Objects > most {
		return nil, fmt.Errorf("%w has handles in %d bytes, at most %d", ErrState, s.Objects, most)
	}
	n := int(s.Objects)
	b, err := io.ReadAll(io.LimitReader(r, int64(n)+4))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	case len(b) != n+4:
		return nil, fmt.Errorf("%w is cut short", ErrState)
	case crc32.ChecksumIEEE(b[:n]) != binary.LittleEndian.Uint32(b[n:]):
		return nil, fmt.Errorf("%w is damaged: a checksum is wrong", ErrState)
	case s.Programs == None:
		return b[:n], End(r)
	}
	return b[:n], nil
}

// EncodeFile encodes the description of a file, as it follows a state.
func EncodeFile(b []byte) []byte {
	out := append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(b))
}

// ReadFile is the reverse. It reads at most so many bytes, after which the stream must end.
func ReadFile(r io.Reader, most uint32) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	size := binary.LittleEndian.Uint32(n[:])
	if size > most {
		return nil, fmt.Errorf("%w describes a file in %d bytes, at most %d", ErrState, size, most)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(size)+4))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	case len(b) != int(size)+4:
		return nil, fmt.Errorf("%w is cut short", ErrState)
	case crc32.ChecksumIEEE(b[:size]) != binary.LittleEndian.Uint32(b[size:]):
		return nil, fmt.Errorf("%w is damaged: a checksum is wrong", ErrState)
	}
	return b[:size], End(r)
}

// End returns an error unless a stream has ended.
func End(r io.Reader) error {
	switch n, err := io.ReadFull(r, make([]byte, 1)); {
	case n > 0:
		return fmt.Errorf("%w is followed by something", ErrState)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return nil
}

// Suits says why a device with that state of its own can't go on where the saved one stopped.
func (s *State) Suits(here *State) error {
	if s.Greeted == 0 {
		return nil // the next driver greets this device
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
