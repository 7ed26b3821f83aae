// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"runtime"
	"testing"
)

func readAll(b []byte, limit uint64) (list []Executed, err error) {
	r := NewReader(bytes.NewReader(b), limit)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
}

var some = []Executed{
	{Op: 256, Words: []uint64{0}, Made: []uint64{1 << 60}},
	{Op: 1023, Context: math.MaxUint64},
	{Op: 280, Context: 7, Words: []uint64{1, 2}, Body: []byte("an image"), Made: []uint64{3, 4}},
}

func saved(t testing.TB, list []Executed) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Save(&b, list); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSaved(t *testing.T) {
	b := saved(t, some)
	if list, err := readAll(b, uint64(len(b))); err != nil || !reflect.DeepEqual(list, some) {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := readAll(b, uint64(len(b)-1)); !errors.Is(err, ErrSaved) {
		t.Errorf("more than there may be: %v", err)
	}
	if err := Save(io.Discard, []Executed{{Made: make([]uint64, MaxWords+1)}}); !errors.Is(err,
		ErrSaved) {
		t.Errorf("too many objects: %v", err)
	}
	ends := map[int]bool{0: true, 48: true, 80: true} // where records end
	for n := range b {
		if _, err := readAll(b[:n], 1<<20); (err == nil) != ends[n] {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestSaveThatFails(t *testing.T) {
	if err := Save(failing{}, some); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
}

// TestReadAllocatesWhatIsThere and not what a hostile file says.
func TestReadAllocatesWhatIsThere(t *testing.T) {
	b := saved(t, []Executed{{Op: 1, Body: []byte("x")}})
	b[21] = 0xff // 2⁴⁰ bytes and more of a body
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readAll(b, math.MaxUint64)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrSaved) || after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("%v, %d bytes", err, after.TotalAlloc-before.TotalAlloc)
	}
}

// FuzzRead: what is read is written again as it was, and is no more than there may be.
func FuzzRead(f *testing.F) {
	f.Add(saved(f, some))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := readAll(b, 1<<16)
		if again := saved(t, list); len(again) > 1<<16 || SavedBytes(list) != uint64(len(again)) ||
			err == nil && !bytes.Equal(again, b) {
			t.Errorf("%x, read as %x", b, again)
		}
	})
}
