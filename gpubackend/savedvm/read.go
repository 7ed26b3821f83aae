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

// Reader reads the record of a VM, after its header.
type Reader struct {
	Header   record.Header
	Programs []Program

	record *record.Reader
	state  *State // in which file it is; nil: in none
}

// Open begins to read a record, up to the first program.
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

// Each reads all programs. For each, give returns the pipe from which its worker reads, nil if
// nobody does, and a function for the worker's answer. Nothing is read after an error. A worker
// gets nothing that is damaged, but damage may be found only after it has got much.
func (v *Reader) Each(give func(number int, p Program) (to io.WriteCloser, end func() error),
) error {
	for i, p := range v.Programs {
		to, end := give(i, p)
		err := v.pass(i, to)
		if end != nil {
			// a worker that gives up says why, and stops reading
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

// pass passes the sections of one program on as a separate record, which has all memory.
func (v *Reader) pass(number int, to io.WriteCloser) error {
	if to == nil {
		for _, x := range sections {
			if _, err := Next(v.record, x.name, x.most); err != nil {
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
	c := sectionCopy{to: w, from: v.record, number: 1, most: math.MaxUint64}
	if p := &v.Programs[number]; p.Base != nil || p.Sectors > 0 {
		if v.state == nil {
			return fmt.Errorf("%w has memory before it, which isn't there", ErrSaved)
		}
		c.merged = v.state.memory[number].merged()
	}
	if err := c.sections(); err != nil {
		return err
	}
	return w.End()
}
