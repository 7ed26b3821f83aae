// SPDX-License-Identifier: Apache-2.0

// Package precopy is how device memory of a VM gets from one device process to another while the VM
// runs, before it is migrated: what both say to each other, over a connection that others have made
// and protect.
//
//	precopy.go  the format
//	sender.go   the source's side
//	receiver.go the destination's side
//
// # Format
//
// All numbers are little-endian. The source begins with a greeting, of the type greeting; the
// destination answers it. Then come frames, each a frameHead, its content, and 4 bytes
// of checksum. A sector of device memory (package sectorsum) belongs in place of what came for the
// same channel and address before. The end says how many sectors there were; the
// destination answers that it has all. An answer is of the type answer, and then its text.
//
// Each checksum is the CRC-32C of all that one side has sent before, checksums left out, so that
// what was changed, left out or repeated is found. Who protects the connection sees to it that
// nobody makes another good one.
//
// # Versions
//
// Another format has another number, and is refused. The greeting has the kind of GPU and the
// program's version: others than the destination's are refused as well.
//
// # Who may lie
//
// Both sides. The destination keeps what it has room for, under addresses that it can have, and
// nothing else happens: what is in the sectors goes to workers of the VM that comes, and harms that
// alone. Nothing is allocated for what is said. The source is told yes or no, and a text that is
// bounded and printable.
package precopy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
	"unicode"

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

// ErrPrecopy is wrapped by all errors that say what is wrong with what the other side sends.
var ErrPrecopy = errors.New("what comes from the other device process")

// Conn is a connection. Its deadline is that of the step that is under way.
type Conn interface {
	io.ReadWriter
	SetDeadline(t time.Time) error
}

// Header says whose memory comes, and from what program.
type Header struct {
	GPU     string // the kind of GPU
	Version string // of Paracuda
}

// greeting is the first thing that the source says.
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

// frameHead is that of one.
type frameHead struct {
	Kind    uint32
	Channel uint32 // of a sector
	Address uint64 // of a sector
	Number  uint64 // of sectors that were before the end
}

// answer is what the destination says.
type answer struct {
	Magic   [8]byte
	Format  uint32
	Kind    uint32
	Session uint64
	Sum     uint32 // of what has come
	Text    uint32 // how long it is
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w %w", ErrPrecopy, fmt.Errorf(format, args...))
}

// runningSum is one side's sum of what it has sent, or got.
type runningSum uint32

func (s *runningSum) add(p []byte) { *s = runningSum(crc32.Update(uint32(*s), castagnoli, p)) }

// write writes something with its checksum behind it.
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

// read fills what a checksum is behind.
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

// encode is something of a fixed size: it can't fail.
func encode(x any) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, x)
	return b
}

func decode(b []byte, x any) { _, _ = binary.Decode(b, binary.LittleEndian, x) }

// plain is a text without what a terminal or a log would take for something else.
func plain(text []byte) string {
	runes := []rune(string(text))
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = '?'
		}
	}
	return string(runes)
}

// sectorBytes is how large a sector is.
const sectorBytes = sectorsum.Bytes
