// SPDX-License-Identifier: Apache-2.0

// Package record is the format in which the state of a VM's programs goes to a file, or to another
// host, and comes back. It knows nothing about the state: a record is a header, and sections of
// bytes with names.
//
//	record.go   what a record says of itself, and its bounds
//	sum.go      checksums
//	writer.go   writes one
//	reader.go   reads one; Check reads all of it
//	parts.go    many stretches at the same time
//	content.go  reads a section of one in a file from anywhere
//	file.go     a file that appears only when all of the record is in it; or one that has
//	            records, and gets another after them
//
// # Format
//
// All numbers are little-endian. A record can be written and read without seeking, so it fits both
// a file and the stream of a migration. It is, in this order,
//
//	a header of 320 bytes, of the type head: whose state it is, and what wrote it
//	sections, of program 0, which is the VM itself, then of 1, 2, ... without a gap
//	the last section, named "end", which is program 0's: how many sections were before it, and how
//	many bytes they have
//
// A section has a header of 48 bytes, of the type title, and then its content, in stretches
// of 1 MiB and a last one with the rest, each followed by 4 bytes of checksum. A section without
// content has no stretch.
//
// Each checksum is the CRC-32C of all of the record before it, checksums left out. So stretches and
// sections that were changed, left out, repeated, put in another order or taken from another record
// are found. It isn't a signature: whoever may write to the file can write another valid record.
//
// # Versions
//
// A format has a number; others are refused, and so are reserved bytes that aren't zero. A reader
// that doesn't know a section's name must refuse the record: nothing in it may be ignored.
//
// # Who may lie
//
// Whoever wrote the record. No more than PieceBytes is allocated because of a length in it; the
// checksum of what Reader.Read returns was compared. Texts of the header are printable. The readers
// of sections check their contents.
package record

import (
	"bytes"
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a record.
const (
	MaxPrograms  = 1024
	MaxSections  = 1 << 20
	stretchBytes = 1 << 20
)

const (
	format    = 2
	headBytes = 320
	markBytes = 48
	sumBytes  = 4
	endBytes  = 16
	endName   = "end"
)

var magic = [8]byte{'p', 'c', 'r', 'e', 'c', 'o', 'r', 'd'}

// ErrRecord is wrapped by all errors about a bad record.
var ErrRecord = errors.New("the record")

// Header says whose state a record has, and what wrote it.
type Header struct {
	GPU     string // the kind of GPU, at most 128 bytes
	Version string // of Paracuda, at most 64 bytes
	VM      string // by which it is recognised, at most 64 bytes; "" for most
	Saved   time.Time
}

// head is a Header as it is written, without its checksum.
type head struct {
	Magic   [8]byte
	Format  uint32
	Bytes   uint32 // of the header, checksum included
	Saved   int64  // seconds since 1970
	GPU     [128]byte
	Version [64]byte
	VM      [64]byte
	Zero    [36]byte
}

// title is the header of a section, without its checksum.
type title struct {
	Bytes   uint64
	Program uint32
	Name    [32]byte
}

// end is the content of the last section.
type end struct {
	Sections uint64
	Bytes    uint64
}

// Section is a part of a record.
type Section struct {
	Program uint32 // whose; 0 is the VM itself
	Name    string // at most 32 bytes: small letters, digits and "-"
	Bytes   uint64 // of its content
}

// Size is the length of a record with these sections.
func Size(sections []Section) uint64 {
	all := uint64(headBytes + markBytes + endBytes + sumBytes)
	for _, s := range sections {
		stretches := (s.Bytes + stretchBytes - 1) / stretchBytes
		all += markBytes + s.Bytes + stretches*sumBytes
	}
	return all
}

// Suits says why a record with header h can't be resumed by a program that would write one with
// header here.
func (h Header) Suits(here Header) error {
	for _, x := range []struct{ what, saved, is, fix string }{
		{"GPU", h.GPU, here.GPU, "take it up on a GPU of the same kind"},
		{"version of Paracuda", h.Version, here.Version, "take it up with the same version"},
	} {
		if x.saved != x.is {
			return fmt.Errorf("%w is of another %s, %q, this one is %q: %s",
				ErrRecord, x.what, x.saved, x.is, x.fix)
		}
	}
	return nil
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w %w", ErrRecord, fmt.Errorf(format, args...))
}

// put writes a text to a field of fixed size.
func put(field []byte, what, text string) error {
	switch {
	case len(text) > len(field):
		return fmt.Errorf("%s %q has more than %d bytes", what, text, len(field))
	case !printable(text):
		return fmt.Errorf("%s %q isn't printable", what, text)
	}
	copy(field, text)
	return nil
}

// get is the reverse.
func get(field []byte, what string) (string, error) {
	text := bytes.TrimRight(field, "\x00")
	if !printable(string(text)) {
		return "", wrong("has a %s that isn't printable", what)
	}
	return string(text), nil
}

func printable(text string) bool {
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return utf8.ValidString(text)
}

// named says whether a section may have that name.
func named(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return name != "" && len(name) <= len(title{}.Name)
}

// sectionOrder checks, section by section, what must hold for all sections together.
type sectionOrder struct {
	sections, bytes uint64
	program         uint32
}

// next says what is wrong with a section that comes next.
func (o *sectionOrder) next(s Section) error {
	switch {
	case !named(s.Name):
		return fmt.Errorf("has a section with an invalid name")
	case o.sections == MaxSections:
		return fmt.Errorf("has more than %d sections", MaxSections)
	case s.Program > MaxPrograms:
		return fmt.Errorf("has more than %d programs", MaxPrograms)
	case s.Program != o.program && s.Program != o.program+1:
		return fmt.Errorf("has a section of program %d after one of program %d",
			s.Program, o.program)
	case o.bytes+s.Bytes < o.bytes || o.bytes+s.Bytes > 1<<62:
		return fmt.Errorf("has a section of too many bytes, %d", s.Bytes)
	}
	o.sections++
	o.bytes += s.Bytes
	o.program = s.Program
	return nil
}
