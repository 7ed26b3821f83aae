// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend/record"
)

// checking checks the sections of a record in a file, one after the other, and notes where memory
// is.
type checking struct {
	file      *File
	state     *State
	before    *State // the one before it, nil if it is the first
	next      int    // which section comes next
	program   uint32 // to which it belongs
	unchanged unchanged
	sectors   []Sector    // of programs that follow, in the area
	early     *areaMemory // the program's memory there
}

// section says why a section can't be there.
func (c *checking) section(r *record.Reader, s record.Section) error {
	switch {
	case c.program == 0 && c.next == 0 && s.Program == 0 && s.Name == ProgramsName:
		c.next = len(sections)
		return c.programs(r, s)
	case c.program == 0 && c.next == len(sections) && s.Program == 0 && s.Name == DescriptorsName:
		return c.descriptors(r, s)
	case c.program == 0 && c.next == len(sections) && s.Program == 0 && s.Name == SectorsName:
		return c.areaSectors(r, s)
	case c.next == len(sections) && s.Program == c.program+1:
		c.program, c.next = s.Program, 0
	}
	if s.Program != c.program || c.program == 0 || c.next == len(sections) ||
		s.Name != sections[c.next].name || s.Bytes > sections[c.next].most ||
		int(c.program) > len(c.state.Programs) {
		return fmt.Errorf("%w has it where it can't be", ErrSaved)
	}
	c.next++
	switch s.Name {
	case StateName:
		return c.begin()
	case SameName:
		return c.same(r, s)
	case MemoryName:
		own := record.NewContent(c.state.from, c.state.at+r.At(), s.Bytes)
		m, err := newMemory(own, c.unchanged, c.base(), c.early)
		c.state.memory = append(c.state.memory, m)
		return err
	}
	return nil
}

// descriptors reads what descriptors in the guest stand for.
func (c *checking) descriptors(r io.Reader, s record.Section) error {
	if c.state.Descriptors != nil || c.sectors != nil || s.Bytes == 0 || s.Bytes > MaxDescriptors {
		return fmt.Errorf("%w has it where it can't be", ErrSaved)
	}
	c.state.Descriptors = make([]byte, s.Bytes) // it is bounded
	_, err := io.ReadFull(r, c.state.Descriptors)
	return err
}

// areaSectors reads where programs' memory is in the area.
func (c *checking) areaSectors(r io.Reader, s record.Section) (err error) {
	n := 0
	for _, p := range c.state.Programs {
		if n += p.Sectors; p.Sectors < 0 || n > MaxSectors {
			return fmt.Errorf("%w has too many sectors", ErrSaved)
		}
	}
	if c.sectors != nil || n == 0 || s.Bytes != uint64(n)*sectorBytes {
		return fmt.Errorf("%w has it where it can't be", ErrSaved)
	}
	b := make([]byte, s.Bytes) // it is bounded
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	c.sectors, err = decodeSectors(b, c.state.area)
	return err
}

// begin begins with a program: which sectors are its.
func (c *checking) begin() error {
	n := c.state.Programs[c.program-1].Sectors
	if c.early = nil; n == 0 {
		return nil
	}
	if n < 0 || n > len(c.sectors) {
		return fmt.Errorf("%w has fewer sectors than it says", ErrSaved)
	}
	c.early = &areaMemory{c.state.from, c.state.area, c.sectors[:n:n]}
	c.sectors = c.sectors[n:]
	return nil
}

// programs reads the list of programs.
func (c *checking) programs(r io.Reader, s record.Section) error {
	if s.Bytes > MaxPrograms {
		return fmt.Errorf("%w has too many programs", ErrSaved)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &c.state.Programs); err != nil {
		return fmt.Errorf("read %w: %w", ErrSaved, err)
	}
	for _, p := range c.state.Programs {
		if b := p.Base; b != nil && (c.before == nil || b.Sum != c.before.Sum || b.Number < 0 ||
			b.Number >= len(c.before.memory)) {
			return fmt.Errorf("%w has memory of a program that isn't before it", ErrSaved)
		}
	}
	return nil
}

// base is the program's memory in the record before; nil: none.
func (c *checking) base() *memory {
	b := c.state.Programs[c.program-1].Base
	if b == nil {
		return nil
	}
	return c.before.memory[b.Number]
}

// same reads which memory is in the record before.
func (c *checking) same(r io.Reader, s record.Section) error {
	b := make([]byte, s.Bytes) // it is bounded
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	var err error
	c.unchanged, err = decodeUnchanged(b, c.base() != nil || c.early != nil,
		inEach{inRecord: bytesOf(c.base()), inArea: c.early.bytes()})
	if c.file.runs += len(c.unchanged.runs); c.file.runs > MaxFileRuns {
		return fmt.Errorf("%w has memory in too many parts", ErrSaved)
	}
	if err != nil || c.early == nil {
		return err
	}
	return c.early.check(c.unchanged.runs)
}

// over says why a record that has ended isn't a whole record of a VM.
func (c *checking) over() error {
	switch {
	case c.next < len(sections):
		return fmt.Errorf("%w has no section %q", ErrSaved, sections[c.next].name)
	case len(c.sectors) > 0 || int(c.program) != len(c.state.Programs):
		return fmt.Errorf("%w has fewer programs than it says", ErrSaved)
	}
	return nil
}
