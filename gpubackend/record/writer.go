// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Writer writes a record. After an error it can't be used: the record has no end, and readers
// refuse it.
type Writer struct {
	to      io.Writer
	sum     sum
	order   sectionOrder
	left    uint64 // bytes of the section that are still to come
	stretch int    // bytes of its stretch that have come
	ended   bool
}

// NewWriter begins a record. to should be fast for large writes.
func NewWriter(to io.Writer, h Header) (*Writer, error) {
	w := &Writer{to: to}
	x := head{Magic: magic, Format: format, Bytes: headBytes, Saved: h.Saved.Unix()}
	err := errors.Join(put(x.GPU[:], "GPU", h.GPU), put(x.Version[:], "version", h.Version),
		put(x.VM[:], "VM", h.VM))
	if err != nil {
		return nil, fmt.Errorf("begin a record: %w", err)
	}
	return w, w.summed(&x)
}

// Begin begins a section, with the number of bytes that will be written.
func (w *Writer) Begin(s Section) error {
	switch err := w.whole(); {
	case err != nil:
		return err
	case s.Name == endName:
		return fmt.Errorf("write a record: a section can't be named %q", s.Name)
	}
	if err := w.order.next(s); err != nil {
		return fmt.Errorf("write a record: it %w", err)
	}
	return w.mark(s)
}

func (w *Writer) mark(s Section) error {
	x := title{Bytes: s.Bytes, Program: s.Program}
	copy(x.Name[:], s.Name)
	w.left, w.stretch = s.Bytes, 0
	return w.summed(&x)
}

// Write writes content of the section that was begun.
func (w *Writer) Write(p []byte) (n int, err error) {
	if uint64(len(p)) > w.left {
		return 0, fmt.Errorf("write a record: %d bytes, where %d are left of the section",
			len(p), w.left)
	}
	if to, ok := w.to.(PartsWriter); ok && w.stretch == 0 {
		if whole := wholeBytes(len(p), w.left); whole > 0 {
			if err := w.writeStretches(to, p[:whole]); err != nil {
				return 0, err
			}
			n, p = whole, p[whole:]
		}
	}
	for len(p) > 0 {
		part := p[:min(len(p), stretchBytes-w.stretch)]
		if _, err := w.to.Write(part); err != nil {
			return n, fmt.Errorf("write a record: %w", err)
		}
		w.sum.add(part)
		n, p = n+len(part), p[len(part):]
		w.left -= uint64(len(part))
		w.stretch += len(part)
		if w.stretch == stretchBytes || w.left == 0 {
			if err := w.raw(w.sum.bytes()); err != nil {
				return n, err
			}
			w.stretch = 0
		}
	}
	return n, nil
}

// End ends the record. It tells readers that nothing is missing.
func (w *Writer) End() error {
	if err := w.whole(); err != nil {
		return err
	}
	if err := w.mark(Section{Name: endName, Bytes: endBytes}); err != nil {
		return err
	}
	x := end{w.order.sections, w.order.bytes}
	b, _ := binary.Append(nil, binary.LittleEndian, &x) // of a fixed size: it can't fail
	_, err := w.Write(b)
	w.ended = true
	return err
}

// whole says why no section can begin.
func (w *Writer) whole() error {
	switch {
	case w.ended:
		return errors.New("write a record: it has ended")
	case w.left > 0:
		return fmt.Errorf("write a record: %d bytes of a section are missing", w.left)
	}
	return nil
}

// summed writes a header with its checksum.
func (w *Writer) summed(x any) error {
	b, _ := binary.Append(nil, binary.LittleEndian, x) // of a fixed size: it can't fail
	w.sum.add(b)
	return w.raw(append(b, w.sum.bytes()...))
}

func (w *Writer) raw(b []byte) error {
	if _, err := w.to.Write(b); err != nil {
		return fmt.Errorf("write a record: %w", err)
	}
	return nil
}

// Sum is the Summary's Sum, of a record that has ended.
func (w *Writer) Sum() uint32 { return uint32(w.sum) }
