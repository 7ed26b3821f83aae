// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/paracuda/paracuda/gpubackend/overlap"
	"github.com/paracuda/paracuda/gpubackend/record"
)

// Source is the worker of a program.
type Source struct {
	Program
	// Save has it write its record to a pipe, and returns when it has, or can't.
	Save func(to *os.File) error
}

// Write writes the record of a VM. It returns the sum by which it is known.
func Write(to io.Writer, h record.Header, list []Source) (sum uint32, err error) {
	w, err := record.NewWriter(to, h)
	if err != nil {
		return 0, err
	}
	var programs []Program
	for _, s := range list {
		programs = append(programs, s.Program)
	}
	b, err := json.Marshal(programs)
	if err != nil {
		return 0, fmt.Errorf("write %w: %w", ErrSaved, err)
	}
	if err := w.Begin(record.Section{Name: ProgramsName, Bytes: uint64(len(b))}); err != nil {
		return 0, err
	}
	if _, err := w.Write(b); err != nil {
		return 0, err
	}
	for i := range list {
		if err := list[i].write(w, uint32(1+i)); err != nil {
			return 0, fmt.Errorf("save %s (pid %d): %w", list[i].Name, list[i].PID, err)
		}
	}
	err = w.End()
	return w.Sum(), err
}

// write has the worker write, and takes its record apart.
func (s *Source) write(w *record.Writer, number uint32) error {
	near, far, err := Pipe()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := s.Save(far)
		far.Close() // then there is no other writer
		ended <- err
	}()
	err = s.copy(w, number, near)
	near.Close() // a worker that has more to say can't
	said := <-ended
	if said == nil || err != nil && !errors.Is(err, record.ErrRecord) && !errors.Is(err, ErrSaved) {
		return err // a worker's then is that nobody reads any more
	}
	return said
}

// copy copies a worker's record, as that number.
func (s *Source) copy(w *record.Writer, number uint32, from io.Reader) error {
	r, err := record.NewReader(from)
	if err != nil {
		return err
	}
	if err := copySections(w, r, number, s.Bytes); err != nil {
		return err
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("%w has something behind its end", ErrSaved), err)
	}
	return nil
}

// copySections copies those of a program, as those of that number, with so many bytes of device
// memory at most.
func copySections(w *record.Writer, r *record.Reader, number uint32, memory uint64) error {
	for _, x := range sections {
		if x.name == MemoryName {
			x.most = min(x.most, memory)
		}
		n, err := Next(r, x.name, x.most)
		if err != nil {
			return err
		}
		s := record.Section{Program: number, Name: x.name, Bytes: n}
		if err := copySection(w, r, s); err != nil {
			return err
		}
	}
	return nil
}

func copySection(w *record.Writer, r io.Reader, s record.Section) error {
	if err := w.Begin(s); err != nil {
		return err
	}
	if err := overlap.Copy(w, r, int(min(1<<20, s.Bytes+1))); err != nil {
		return fmt.Errorf("copy section %q: %w", s.Name, err)
	}
	return nil
}
