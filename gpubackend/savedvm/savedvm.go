// SPDX-License-Identifier: Apache-2.0

// Package savedvm is the record of a VM (package record): what sections it has, how it is written
// from the records of workers, and how workers get theirs back.
//
//	savedvm.go    the sections, and reading a worker's
//	write.go      writes a VM's record
//	read.go       reads one
//	unchanged.go  which memory of a program is in the record before
//	area.go       memory that lies before its record
//	file.go       the records of a file, one behind the other
//	check.go      reads all of one
//	merged.go     the memory of a program that is in several of them
//
// # Sections
//
// The VM, program 0, has these sections:
//
//	programs     the programs whose sections follow: a list of type Program, as JSON
//	descriptors  if its device is going to be away, and descriptors in the guest are open: what
//	             these stand for (a state of package exports)
//	sectors      if they have any in an area: all programs' lists of type Sector
//
// and each program these, in this order:
//
//	state    what its worker knows (package worker/saved)
//	objects  the table of objects (package object)
//	journal  the commands that made them (package journal)
//	layout   what lies where in device memory (gpubackend.Saving)
//	same     which of its memory is in the record before, or in an area: a list of type SameRun, or
//	         nothing
//	memory   what is in the rest of it, one piece behind the other
//
// A worker writes a record in which its program is number 1, and reads one that has all memory,
// through a stream of several sockets (package lanes).
//
// # Files
//
// A file has a VM's record, and others may follow, each with a later state of the same VM and only
// the memory that had changed. A record that is cut off or damaged is ignored, with all that
// follow; those before it are still good. The VM knows which record is its last state, by its sum.
//
// Before each record there may be an area: device memory that was written while the programs ran,
// in sectors (package sectorsum). It begins with 4096 bytes, of the type areaHead and else zero;
// then come the sectors. Which of them are whose, and their checksums, is in the record's section
// "sectors": those of a program in the order in which it has them. A sector that isn't used may
// have anything.
//
// # Who may lie
//
// Workers, and whoever wrote the file. A worker's record is taken apart and checked before it gets
// into the VM's: it can have only these sections, and none larger than allowed. The worker that
// reads a section checks its contents, which can harm only its own program.
package savedvm

import (
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend/record"
)

// Names of the sections.
const (
	ProgramsName    = "programs"
	DescriptorsName = "descriptors"
	SectorsName     = "sectors"

	StateName   = "state"
	ObjectsName = "objects"
	JournalName = "journal"
	LayoutName  = "layout"
	SameName    = "same"
	MemoryName  = "memory"
)

// Bounds of the sections that are read into memory.
const (
	MaxPrograms    = 1 << 20
	MaxDescriptors = 1 << 20
	MaxState       = 64 << 20
	MaxObjects     = 512 << 20
	MaxJournal     = 4 << 30
	MaxLayout      = 512 << 20
	MaxSame        = MaxRuns * runBytes
)

// section is a section that every program has, and its bound.
type section struct {
	name string
	most uint64
}

// sections are a program's sections, in their order.
var sections = []section{
	{StateName, MaxState}, {ObjectsName, MaxObjects}, {JournalName, MaxJournal},
	{LayoutName, MaxLayout}, {SameName, MaxSame}, {MemoryName, 1 << 62},
}

// Program is a program whose sections are in a record.
type Program struct {
	Channel int // of the VM's
	PID     int32
	Name    string
	Bytes   uint64 // of device memory, at most
	// Had is all that it had of each GPU's memory, with contexts and code, by the ledger's ids.
	Had map[uint64]uint64 `json:",omitempty"`
	// Ahead is the session by which device memory was sent ahead (package precopy): the sections
	// have what has changed since. 0: none was.
	Ahead uint64 `json:",omitempty"`
	// Base is where the rest of its memory is, in the same file; nil: all is here.
	Base *Base `json:",omitempty"`
	// Sectors is how many sectors it has in the area before the record: more of its memory.
	Sectors int `json:",omitempty"`
}

// Base is a program in the record before.
type Base struct {
	Number int    // of the program, from 0
	Sum    uint32 // of that record
}

// ErrSaved is wrapped by all errors about a VM's record.
var ErrSaved = errors.New("the record of the VM")

// Next goes to the next section of a record, which must have that name and at most that many bytes.
func Next(r *record.Reader, name string, most uint64) (bytes uint64, err error) {
	s, err := r.Next()
	switch {
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("%w has no section %q", ErrSaved, name)
	case err != nil:
		return 0, err
	case s.Name != name || s.Bytes > most:
		return 0, fmt.Errorf("%w has section %q of %d bytes where %q is, of at most %d",
			ErrSaved, s.Name, s.Bytes, name, most)
	}
	return s.Bytes, nil
}

// ReadAll reads a section of at most that many bytes.
func ReadAll(r *record.Reader, name string, most uint64) ([]byte, error) {
	if _, err := Next(r, name, most); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read section %q: %w", name, err)
	}
	return b, nil
}
