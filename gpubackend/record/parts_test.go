// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

// allParts is a file that writes or reads several parts at once, and counts how often it does.
type allParts struct {
	bytes.Buffer
	calls int
	fails error
}

func (a *allParts) WriteParts(parts [][]byte) error {
	a.calls++
	for _, b := range parts {
		a.Write(b)
	}
	return a.fails
}

func (a *allParts) ReadParts(parts [][]byte) error {
	a.calls++
	for _, b := range parts {
		if _, err := io.ReadFull(a, b); err != nil {
			return err
		}
	}
	return a.fails
}

// large has sections around the bounds of what is written and read at once.
func large() (list []part) {
	r := rand.NewChaCha8([32]byte{1})
	for i, n := range []int{0, 1, stretchBytes - 1, stretchBytes, stretchBytes + 1,
		2*stretchBytes - 1, 2 * stretchBytes, 3*stretchBytes + 7, PieceBytes,
		PieceBytes + stretchBytes + 5} {
		b := make([]byte, n)
		_, _ = r.Read(b)
		list = append(list, part{Section{uint32(i), "memory", uint64(n)}, b})
	}
	return list
}

// TestParts: a record has the same bytes however large the parts are in which it is written. It can
// be read and checked in one part or in several.
func TestParts(t *testing.T) {
	list := large()
	want := written(t, list, 1<<10)
	for _, piece := range []int{stretchBytes - 1, 2*stretchBytes + 9, 1 << 30} {
		var to allParts
		if write(t, &to, list, piece); !bytes.Equal(to.Bytes(), want) {
			t.Errorf("in parts of %d: another record", piece)
		}
		if several := to.calls > 0; several != (piece > stretchBytes) {
			t.Errorf("in parts of %d: %d times several", piece, to.calls)
		}
	}
	got, _, err := readAll(&allParts{Buffer: *bytes.NewBuffer(bytes.Clone(want))})
	if err != nil || len(got) != len(list) {
		t.Fatalf("%d sections, %v", len(got), err)
	}
	for i := range got {
		if got[i].Section != list[i].Section || !bytes.Equal(got[i].content, list[i].content) {
			t.Errorf("section %d is another one", i)
		}
	}
	a, errA := Check(bytes.NewReader(want), anything)
	from := &allParts{Buffer: *bytes.NewBuffer(bytes.Clone(want))}
	b, errB := Check(from, anything)
	if errA != nil || errB != nil || a != b || from.calls == 0 {
		t.Errorf("%+v, %v; in parts %+v, %v", a, errA, b, errB)
	}
}

// TestDamagedParts: large reads, too, find a record that is damaged or cut short anywhere.
func TestDamagedParts(t *testing.T) {
	list := large()[9:]
	list[0].Program = 0
	whole := written(t, list, 1<<30)
	first := headBytes + markBytes
	for _, at := range []int{first, first + stretchBytes - 1, first + stretchBytes,
		first + 5*stretchBytes, first + PieceBytes, len(whole) - 1} {
		b := bytes.Clone(whole)
		b[at] ^= 4
		_, err := Check(&allParts{Buffer: *bytes.NewBuffer(b)}, anything)
		if !errors.Is(err, ErrRecord) {
			t.Errorf("byte %d: %v", at, err)
		}
		_, err = Check(&allParts{Buffer: *bytes.NewBuffer(whole[:at:at])}, anything)
		if !errors.Is(err, errShort) {
			t.Errorf("%d bytes: %v", at, err)
		}
	}
	_, err := Check(&allParts{Buffer: *bytes.NewBuffer(whole), fails: errFull}, anything)
	if !errors.Is(err, errFull) {
		t.Errorf("a reader that fails: %v", err)
	}
	w, err := NewWriter(&allParts{fails: errFull}, here)
	if err != nil || w.Begin(list[0].Section) != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(list[0].content); !errors.Is(err, errFull) {
		t.Errorf("a writer that fails: %v", err)
	}
}

// TestJoin: the sums of two parts, joined, are the sum of the whole.
func TestJoin(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, 3000)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for range 200 {
		all := b[:r.IntN(len(b)+1)]
		cut := r.IntN(len(all) + 1)
		s := sumOf(all[:cut])
		if s.join(sumOf(all[cut:]), len(all)-cut); s != sumOf(all) {
			t.Fatalf("%d and %d bytes: %#x, not %#x", cut, len(all)-cut, s, sumOf(all))
		}
	}
}
