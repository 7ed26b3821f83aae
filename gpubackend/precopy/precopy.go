// SPDX-License-Identifier: Apache-2.0

// Package precopy sends device memory of a VM from one device process to another while the VM runs,
// before it is migrated. The caller makes and protects the connection.
//
//	precopy.go  the format
//	sender.go   the source's side
//	receiver.go the destination's side
//
// # Format
//
// All numbers are little-endian. The source begins with a greeting, of the type greeting; the
// destination answers it. Then come frames, each a frameHead, its content, and 4 bytes of checksum.
// A sector of device memory (package sectorsum) replaces what came earlier for the same channel and
// address. The end says how many sectors there were; the destination answers that it has all. An
// answer is of the type answer, and then its text.
//
// Each checksum is the CRC-32C of all that one side has sent before, checksums left out, so that
// changed, missing and repeated data is found. It doesn't keep out forgeries: that is up to the
// protection of the connection.
//
// # Versions
//
// A format has a number, and others are refused. The greeting has the kind of GPU and the program's
// version: these must be the destination's.
//
// # Who may lie
//
// Both sides. The destination only stores sectors, if it has room, under possible addresses. Their
// contents go to workers of the VM that comes, and can harm only that VM. Nothing is allocated
// because of a length that was sent. The source is told yes or no, with a text that is bounded and
// printable.
package precopy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

const (
	format   = 1
	sumBytes = 4
	maxText  = 512
	// MaxChannels is more than any VM has.
	MaxChannels = 1 << 16
)

var (
	magic      = [8]byte{'p', 'c', 'p', 'r', 'e', 'c', 'p', 'y'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// ErrPrecopy is wrapped by all errors about what the other side sends.
var ErrPrecopy = errors.New("what comes from the other device process")

// Conn is a connection. Its deadline is the deadline of the step under way.
type Conn interface {
	io.ReadWriter
	SetDeadline(t time.Time) error
}

// Header says whose memory comes, and from what program.
type Header struct {
	GPU     string // the kind of GPU
	Version string // of Paracuda
}

// greeting is the source's first message.
type greeting struct {
	Magic   [8]byte
	Format  uint32
	Zero    uint32
	Session uint64
	GPU     [128]byte
	Version [64]byte
}

// Kinds of frames, and of answers.
const (
	sector = 1
	end    = 2

	ready   = 1
	hasAll  = 2
	refuses = 3
)

// frameHead is the head of a frame.
type frameHead struct {
	Kind    uint32
	Channel uint32 // of a sector
	Address uint64 // of a sector
	Number  uint64 // of sectors before the end
}

// answer is an answer of the destination.
type answer struct {
	Magic   [8]byte
	Format  uint32
	Kind    uint32
	Session uint64
	Sum     uint32 // of what has arrived
	Text    uint32 // how long it is
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w %w", ErrPrecopy, fmt.Errorf(format, args...))
}

// runningSum is the sum of what one side has sent, or received.
type runningSum uint32

func (s *runningSum) add(p []byte) { *s = runningSum(crc32.Update(uint32(*s), castagnoli, p)) }

// write writes something, followed by its checksum.
func (s *runningSum) write(to io.Writer, parts ...[]byte) error {
	for _, p := range parts {
		s.add(p)
		if _, err := to.Write(p); err != nil {
			return err
		}
	}
	_, err := to.Write(binary.LittleEndian.AppendUint32(nil, uint32(*s)))
	return err
}

// read reads something that is followed by its checksum.
func (s *runningSum) read(from io.Reader, parts ...[]byte) error {
	for _, p := range parts {
		if err := fill(from, p); err != nil {
			return err
		}
		s.add(p)
	}
	var sum [sumBytes]byte
	if err := fill(from, sum[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(sum[:]) != uint32(*s) {
		return wrong("is damaged: a checksum is wrong")
	}
	return nil
}

func fill(from io.Reader, b []byte) error {
	switch _, err := io.ReadFull(from, b); {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return wrong("is cut short")
	case err != nil:
		return fmt.Errorf("read %w: %w", ErrPrecopy, err)
	}
	return nil
}

// encode encodes something of a fixed size: it can't fail.
func encode(x any) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, x)
	return b
}

func decode(b []byte, x any) { _, _ = binary.Decode(b, binary.LittleEndian, x) }

// sectorBytes is how large a sector is.
const sectorBytes = sectorsum.Bytes
