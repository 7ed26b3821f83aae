// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// contents are those of the sections of a record that begins at a place of a file.
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
				p := make([]byte, 300)
				n, err := c.Read(p, uint64(offset))
				end := min(offset+300, len(want), (offset/stretchBytes+1)*stretchBytes)
				if err != nil || !bytes.Equal(p[:n], want[offset:end]) {
					t.Fatalf("section %d at %d: %d bytes, %v", i, offset, n, err)
				}
			}
			if _, err := c.Read(make([]byte, 1), uint64(len(want))); !errors.Is(err, io.EOF) {
				t.Errorf("behind its end: %v", err)
			}
		}
	}
}

// TestDamagedContent: nothing is returned of a stretch that was changed, or is cut short.
func TestDamagedContent(t *testing.T) {
	list := parts()[4:]
	list[0].Program = 1
	file := written(t, list, 1<<30)
	c := contents(t, file, 0)[0]
	p := make([]byte, 10)
	if _, err := c.Read(p, 5); err != nil {
		t.Fatal(err)
	}
	file[headBytes+markBytes+stretchBytes+sumBytes+3] ^= 1 // of the second stretch
	if _, err := c.Read(p, stretchBytes); !errors.Is(err, ErrRecord) {
		t.Errorf("damaged: %v", err)
	}
	if _, err := c.Read(p, 5); err != nil {
		t.Errorf("the one before: %v", err)
	}
	c.from = bytes.NewReader(file[:len(file)/2])
	if _, err := c.Read(p, 2*stretchBytes); !errors.Is(err, ErrRecord) {
		t.Errorf("cut short: %v", err)
	}
}
