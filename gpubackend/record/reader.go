// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Reader reads a record. After an error it can't be used.
type Reader struct {
	Header Header

	from    io.Reader
	at      int64 // how much of the record was read
	sum     sum
	order   sectionOrder
	left    uint64 // bytes of the section that aren't in stretch yet
	stretch []byte // read, and compared with its checksum
	space   []byte // for stretch
	ended   bool
}

// NewReader begins to read a record: its header.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{from: from}
	b := make([]byte, headBytes)
	if err := r.fill(b[:16]); err != nil { // another format may have another header
		return nil, err
	}
	var x head
	switch {
	case !bytes.Equal(b[:8], magic[:]):
		return nil, wrong("is none of Paracuda's")
	case binary.LittleEndian.Uint32(b[8:]) != format:
		return nil, wrong("has format %d, this version reads %d",
			binary.LittleEndian.Uint32(b[8:]), format)
	}
	if err := r.fill(b[16:]); err != nil {
		return nil, err
	}
	if err := r.compare(b, &x); err != nil {
		return nil, err
	}
	return r, r.take(&x)
}

// take keeps what a header says.
func (r *Reader) take(x *head) error {
	if x.Bytes != headBytes || x.Zero != (head{}).Zero {
		return wrong("has a header that this version doesn't know")
	}
	var errs [3]error
	r.Header.GPU, errs[0] = get(x.GPU[:], "GPU")
	r.Header.Version, errs[1] = get(x.Version[:], "version")
	r.Header.VM, errs[2] = get(x.VM[:], "VM's name")
	r.Header.Saved = time.Unix(x.Saved, 0)
	return errors.Join(errs[:]...)
}

// Next goes to the next section, past what wasn't read of the last one. At the end of the record it
// returns io.EOF, having read nothing beyond.
func (r *Reader) Next() (s Section, err error) {
	if r.ended {
		return s, io.EOF
	}
	if err := r.skip(); err != nil {
		return s, err
	}
	b := make([]byte, markBytes)
	if err := r.fill(b); err != nil {
		return s, err
	}
	var x title
	if err := r.compare(b, &x); err != nil {
		return s, err
	}
	s = Section{x.Program, string(bytes.TrimRight(x.Name[:], "\x00")), x.Bytes}
	if s.Name == endName {
		return s, r.end(s)
	}
	if err := r.order.next(s); err != nil {
		return s, wrong("%w", err)
	}
	r.left = s.Bytes
	return s, nil
}

// end reads the last section.
func (r *Reader) end(s Section) error {
	if s.Program != 0 || s.Bytes != endBytes {
		return wrong("has an end that this version doesn't know")
	}
	r.left = s.Bytes
	b := make([]byte, endBytes)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	var x end
	_, _ = binary.Decode(b, binary.LittleEndian, &x) // it is long enough
	if x.Sections != r.order.sections || x.Bytes != r.order.bytes {
		return wrong("has %d sections with %d bytes, its end says %d with %d",
			r.order.sections, r.order.bytes, x.Sections, x.Bytes)
	}
	r.ended = true
	return io.EOF
}

// Read reads content of the section. At the section's end it returns io.EOF.
func (r *Reader) Read(p []byte) (int, error) {
	if len(r.stretch) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		from, ok := r.from.(PartsReader)
		if whole := wholeBytes(len(p), r.left); ok && whole > 0 {
			if err := r.readStretches(from, p[:whole]); err != nil {
				return 0, err
			}
			return whole, nil
		}
		size := min(r.left, stretchBytes)
		if uint64(len(p)) >= size { // large reads need no further copy
			if err := r.fillStretch(p[:size]); err != nil {
				return 0, err
			}
			return int(size), nil
		}
		if uint64(len(r.space)) < size {
			r.space = make([]byte, size)
		}
		if err := r.fillStretch(r.space[:size]); err != nil {
			return 0, err
		}
		r.stretch = r.space[:size]
	}
	n := copy(p, r.stretch)
	r.stretch = r.stretch[n:]
	return n, nil
}

// fillStretch reads the next stretch of the section.
func (r *Reader) fillStretch(b []byte) error {
	if err := r.fill(b); err != nil {
		return err
	}
	r.sum.add(b)
	if err := r.compareSum(); err != nil {
		return err
	}
	r.left -= uint64(len(b))
	return nil
}

// compare reads a header whose last bytes are its checksum.
func (r *Reader) compare(b []byte, x any) error {
	content := b[:len(b)-sumBytes]
	r.sum.add(content)
	if !bytes.Equal(b[len(content):], r.sum.bytes()) {
		return errDamaged
	}
	_, _ = binary.Decode(content, binary.LittleEndian, x) // it is long enough
	return nil
}

var (
	errDamaged = wrong("is damaged: a checksum is wrong")
	errShort   = wrong("is cut short")
)

// compareSum reads a checksum and compares it.
func (r *Reader) compareSum() error {
	var b [sumBytes]byte
	if err := r.fill(b[:]); err != nil {
		return err
	}
	if !bytes.Equal(b[:], r.sum.bytes()) {
		return errDamaged
	}
	return nil
}

// fill reads as much as b has room for.
func (r *Reader) fill(b []byte) error {
	switch _, err := io.ReadFull(r.from, b); {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errShort
	case err != nil:
		return fmt.Errorf("read %w: %w", ErrRecord, err)
	}
	r.at += int64(len(b))
	return nil
}

// At is where in the record the content of the current section begins.
func (r *Reader) At() int64 { return r.at }

// Summary is what a record contains.
type Summary struct {
	Header   Header
	Programs int
	Sections uint64
	Bytes    uint64 // of content
	Length   int64  // of the record
	Sum      uint32 // of all of it, to tell whether a record that is read twice has changed
}

// Check reads a whole record, and nothing beyond it. Only then is it known that it isn't damaged:
// nothing should be done with it before. known says of each section whether its reader knows it; it
// may read the section.
func Check(from io.Reader, known func(*Reader, Section) error) (s Summary, err error) {
	r, err := NewReader(from)
	if err != nil {
		return s, err
	}
	for {
		switch section, err := r.Next(); {
		case errors.Is(err, io.EOF):
			return r.summary(), nil
		case err != nil:
			return s, err
		default:
			if err := known(r, section); err != nil {
				return s, wrong("has section %q of program %d: %w",
					section.Name, section.Program, err)
			}
		}
	}
}

func (r *Reader) summary() Summary {
	return Summary{
		Header: r.Header, Programs: int(r.order.program), Sections: r.order.sections,
		Bytes: r.order.bytes, Length: r.at, Sum: uint32(r.sum),
	}
}
