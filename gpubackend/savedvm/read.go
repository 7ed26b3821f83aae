// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/paracuda/paracuda/gpubackend/record"
)

// Check reads a whole record, and does nothing else: it says whether it is one of a VM's, whole and
// undamaged.
func Check(from io.Reader) (record.Summary, error) {
	next, program := 0, uint32(0)
	summary, err := record.Check(from, func(s record.Section) error {
		switch {
		case program == 0 && next == 0 && s.Program == 0 && s.Name == ProgramsName:
			next = len(sections)
			return nil
		case next == len(sections) && s.Program == program+1:
			program, next = s.Program, 0
		}
		if s.Program != program || program == 0 || next == len(sections) ||
			s.Name != sections[next].name || s.Bytes > sections[next].most {
			return fmt.Errorf("%w has it where it can't be", ErrSaved)
		}
		next++
		return nil
	})
	if err == nil && next < len(sections) {
		err = fmt.Errorf("%w has no section %q", ErrSaved, sections[next].name)
	}
	return summary, err
}

// Reader reads the record of a VM, of which it has read whose it is.
type Reader struct {
	Header   record.Header
	Programs []Program

	record *record.Reader
}

// Open begins to read a record: what comes before the first program.
func Open(from io.Reader) (*Reader, error) {
	r, err := record.NewReader(from)
	if err != nil {
		return nil, err
	}
	b, err := ReadAll(r, ProgramsName, MaxPrograms)
	if err != nil {
		return nil, err
	}
	v := &Reader{Header: r.Header, record: r}
	if err := json.Unmarshal(b, &v.Programs); err != nil {
		return nil, fmt.Errorf("read %w: %w", ErrSaved, err)
	}
	return v, nil
}

// Each reads all programs. For each, give returns where its worker reads, nil if nobody does; and
// then what it answered. Nothing is read after an error. A worker gets nothing that is damaged, but
// may have got much when it is seen that what follows is.
func (v *Reader) Each(give func(number int, p Program) (to io.WriteCloser, end func() error),
) error {
	for i, p := range v.Programs {
		to, end := give(i, p)
		err := pass(v.record, to)
		if end != nil {
			// a worker that gives up says why, and reads no more
			if said := end(); said != nil {
				return fmt.Errorf("take up %s (pid %d): %w", p.Name, p.PID, said)
			}
		}
		if err != nil {
			return err
		}
	}
	if _, err := v.record.Next(); !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("%w has more programs than it says", ErrSaved), err)
	}
	return nil
}

// Read reads a record that Check has found to be good, as Each does.
func Read(from io.Reader, give func(number int, p Program) (to io.WriteCloser, end func() error),
) error {
	v, err := Open(from)
	if err != nil {
		return err
	}
	return v.Each(give)
}

// pass passes the sections of one program on, as a record of its own.
func pass(r *record.Reader, to io.WriteCloser) error {
	if to == nil {
		for _, x := range sections {
			if _, err := Next(r, x.name, x.most); err != nil {
				return err
			}
		}
		return nil
	}
	defer to.Close()
	w, err := record.NewWriter(to, record.Header{})
	if err != nil {
		return err
	}
	if err := copySections(w, r, 1, math.MaxUint64); err != nil {
		return err
	}
	return w.End()
}
