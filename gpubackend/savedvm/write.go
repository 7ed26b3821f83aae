// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend/lanes"
	"github.com/paracuda/paracuda/gpubackend/overlap"
	"github.com/paracuda/paracuda/gpubackend/record"
)

// Source is the worker of a program.
type Source struct {
	Program
	// BaseBytes is how much memory its Base has, and BaseParts in how many parts.
	BaseBytes uint64
	BaseParts int
	// Sectors are those in the area before the record.
	Sectors []Sector
	// Save makes it write its record to a stream (package lanes), and returns when it has, or
	// can't.
	Save func(to *lanes.Far) error
}

// Written is what was written.
type Written struct {
	Sum  uint32 // by which the record is known
	Same uint64 // bytes of memory that are in the record before
	Area uint64 // bytes that are in the area
}

// VM is what is written of a VM besides its programs.
type VM struct {
	Header      record.Header
	Descriptors []byte // for the section of that name
	Runs        int    // that the file already has
}

// Write writes the record of a VM.
func Write(to io.Writer, vm VM, list []Source) (written Written, err error) {
	w, err := record.NewWriter(to, vm.Header)
	if err != nil {
		return written, err
	}
	var programs []Program
	for _, s := range list {
		s.Program.Sectors = len(s.Sectors)
		programs = append(programs, s.Program)
	}
	b, err := json.Marshal(programs)
	if err != nil {
		return written, fmt.Errorf("write %w: %w", ErrSaved, err)
	}
	if err := writeWhole(w, ProgramsName, b); err != nil {
		return written, err
	}
	if b := vm.Descriptors; len(b) > 0 {
		if err := writeWhole(w, DescriptorsName, b); err != nil {
			return written, err
		}
	}
	if b := encodeSectors(list); len(b) > 0 {
		if err := writeWhole(w, SectorsName, b); err != nil {
			return written, err
		}
	}
	runs := vm.Runs
	for i := range list {
		u, err := list[i].write(w, uint32(1+i))
		if runs += len(u.runs); err == nil && runs > MaxFileRuns {
			err = record.ErrGrown
		}
		if err != nil {
			return written, fmt.Errorf("save %s (pid %d): %w", list[i].Name, list[i].PID, err)
		}
		written.Same, written.Area = written.Same+u.same[inRecord], written.Area+u.same[inArea]
	}
	err = w.End()
	written.Sum = w.Sum()
	return written, err
}

// writeWhole writes a section of the VM's.
func writeWhole(w *record.Writer, name string, b []byte) error {
	err := w.Begin(record.Section{Name: name, Bytes: uint64(len(b))})
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// write lets the worker write, and takes its record apart. It returns which memory is unchanged.
func (s *Source) write(w *record.Writer, number uint32) (u unchanged, err error) {
	near, far, err := lanes.Pipe()
	if err != nil {
		return u, err
	}
	ended := make(chan error, 1)
	go func() {
		err := s.Save(far)
		far.Close() // leaves the worker as the only writer
		ended <- err
	}()
	u, err = s.copy(w, number, near)
	near.Close() // a worker that writes more gets an error
	said := <-ended
	if said == nil || err != nil && !errors.Is(err, record.ErrRecord) && !errors.Is(err, ErrSaved) {
		return u, err // the worker's error then only says that nobody reads
	}
	return u, said
}

// copy copies a worker's record, as the program with that number.
func (s *Source) copy(w *record.Writer, number uint32, from io.Reader) (u unchanged, err error) {
	r, err := record.NewReader(from)
	if err != nil {
		return u, err
	}
	early := areaMemory{list: s.Sectors}
	c := sectionCopy{to: w, from: r, number: number, most: s.Bytes,
		based: s.Base != nil || len(s.Sectors) > 0,
		have:  inEach{inRecord: s.BaseBytes, inArea: early.bytes()}, parts: s.BaseParts + 1}
	if err := c.sections(); err != nil {
		return u, err
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		return u, errors.Join(fmt.Errorf("%w has something behind its end", ErrSaved), err)
	}
	return c.unchanged, nil
}

// sectionCopy copies the sections of a program, under that number.
type sectionCopy struct {
	to     *record.Writer
	from   *record.Reader
	number uint32
	most   uint64  // bytes of device memory
	based  bool    // the program is in the record before, or in the area
	have   inEach  // bytes of its memory there
	parts  int     // in which those are, at most
	merged *merged // all of its memory, to be copied in place of what has changed; nil: none is

	unchanged unchanged // what is there
}

func (c *sectionCopy) sections() error {
	for _, x := range sections {
		most := x.most
		if x.name == MemoryName {
			most = min(most, c.most-c.unchanged.all())
		}
		n, err := Next(c.from, x.name, most)
		if err != nil {
			return err
		}
		s := record.Section{Program: c.number, Name: x.name, Bytes: n}
		switch {
		case x.name == SameName:
			err = c.same(s)
		case x.name == MemoryName && c.merged != nil:
			s.Bytes = c.merged.bytes
			err = copySection(c.to, c.merged.reader(), s)
		default:
			err = copySection(c.to, c.from, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// same copies the section that says what memory is the same, unless all is copied.
func (c *sectionCopy) same(s record.Section) error {
	if c.merged != nil {
		s.Bytes = 0
		return c.to.Begin(s)
	}
	b := make([]byte, s.Bytes) // it is bounded
	if _, err := io.ReadFull(c.from, b); err != nil {
		return fmt.Errorf("copy section %q: %w", s.Name, err)
	}
	u, err := decodeUnchanged(b, c.based, c.have)
	if err != nil {
		return err
	}
	if len(u.runs) > 0 && c.parts+2*len(u.runs) > MaxParts {
		return record.ErrGrown
	}
	if c.unchanged = u; u.all() > c.most {
		return fmt.Errorf("%w has %d bytes of memory that are the same, of %d", ErrSaved, u.all(),
			c.most)
	}
	if err := c.to.Begin(s); err != nil {
		return err
	}
	_, err = c.to.Write(b)
	return err
}

func copySection(w *record.Writer, r io.Reader, s record.Section) error {
	if err := w.Begin(s); err != nil {
		return err
	}
	if err := overlap.Copy(w, r, int(min(record.PieceBytes, s.Bytes+1))); err != nil {
		return fmt.Errorf("copy section %q: %w", s.Name, err)
	}
	return nil
}
