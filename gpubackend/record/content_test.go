// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// contents returns the content of each section of the record that begins at this place of a file.
func contents(t *testing.T, file []byte, at int64) (list []*Content) {
	t.Helper()
	_, err := Check(bytes.NewReader(file[at:]), func(r *Reader, s Section) error {
		list = append(list, NewContent(bytes.NewReader(file), at+r.At(), s.Bytes))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestContent: a section is read from anywhere, also in a record that isn't the file's first.
func TestContent(t *testing.T) {
	list := parts()
	one := written(t, list, 1<<30)
	for _, at := range []int{0, len(one)} {
		file := append(bytes.Clone(one), one...)
		for i, c := range contents(t, file, int64(at)) {
			want := list[i].content
			if c.Bytes() != uint64(len(want)) {
				t.Fatalf("%d bytes, want %d", c.Bytes(), len(want))
			}
			for offset := 0; offset < len(want); offset += stretchBytes/2 + 7 {
				_, left := c.StretchOf(uint64(offset))
				p := make([]byte, min(300, int(left), len(want)-offset))
				last := make([]byte, 1)
				err := c.Read([]Excerpt{{uint64(offset), p},
					{uint64(offset + len(p) - 1), last}})
				if err != nil || !bytes.Equal(p, want[offset:offset+len(p)]) ||
					last[0] != p[len(p)-1] {
					t.Fatalf("section %d at %d: %v", i, offset, err)
				}
			}
			for _, offset := range []uint64{uint64(len(want)), uint64(len(want)) + stretchBytes} {
				err := c.Read([]Excerpt{{offset, make([]byte, 1)}})
				if !errors.Is(err, io.EOF) {
					t.Errorf("behind its end, at %d: %v", offset, err)
				}
			}
			if len(want) > stretchBytes { // two stretches aren't one
				err := c.Read([]Excerpt{{stretchBytes - 1, make([]byte, 2)}})
				before := c.Read([]Excerpt{{stretchBytes, nil}, {0, make([]byte, 1)}})
				if !errors.Is(err, io.EOF) || !errors.Is(before, io.EOF) {
					t.Errorf("of two stretches: %v, %v", err, before)
				}
			}
		}
	}
}

// TestDamagedContent: a stretch that was changed or is cut short is refused, and others are read.
func TestDamagedContent(t *testing.T) {
	list := parts()[4:]
	list[0].Program = 1
	file := written(t, list, 1<<30)
	c := contents(t, file, 0)[0]
	at := func(offset uint64) []Excerpt { return []Excerpt{{offset, make([]byte, 10)}} }
	if err := c.Read(at(5)); err != nil {
		t.Fatal(err)
	}
	file[headBytes+markBytes+stretchBytes+sumBytes+3] ^= 1 // in the second stretch
	if err := c.Read(at(stretchBytes)); !errors.Is(err, ErrRecord) {
		t.Errorf("damaged: %v", err)
	}
	if err := c.Read(at(5)); err != nil {
		t.Errorf("the one before: %v", err)
	}
	c.from = bytes.NewReader(file[:len(file)/2])
	if err := c.Read(at(2 * stretchBytes)); !errors.Is(err, ErrRecord) {
		t.Errorf("cut short: %v", err)
	}
}
