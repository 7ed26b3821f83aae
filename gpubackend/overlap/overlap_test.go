// SPDX-License-Identifier: Apache-2.0

package overlap

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/iotest"
)

// content is what nobody else has.
func content(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// lengths are those around the bounds of blocks of 16 bytes, and some more.
func lengths(r *rand.Rand) []int {
	list := []int{0, 1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 128}
	for range 50 {
		list = append(list, r.IntN(1000))
	}
	return list
}

func TestReader(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range lengths(r) {
		want := content(r, n)
		reader := NewReader(bytes.NewReader(want), 16)
		if err := iotest.TestReader(reader, want); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		reader.Close()
		if _, err := reader.Read(make([]byte, 1)); !errors.Is(err, errClosed) {
			t.Errorf("a reader that is closed: %v", err)
		}
	}
}

// failing is a file that can be read up to a place.
type failing struct {
	io.ReaderAt
	from int64
}

var errBroken = errors.New("broken")

func (f failing) ReadAt(p []byte, at int64) (int, error) {
	if n := f.from - at; n < int64(len(p)) {
		n, _ := f.ReaderAt.ReadAt(p[:max(0, n)], at)
		return n, errBroken
	}
	return f.ReaderAt.ReadAt(p, at)
}

func TestReaderFails(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	want := content(r, 1000)
	for _, at := range []int{0, 1, 16, 40, 999} {
		reader := NewReader(failing{bytes.NewReader(want), int64(at)}, 16)
		got, err := io.ReadAll(reader)
		if !bytes.Equal(got, want[:at]) || !errors.Is(err, errBroken) {
			t.Errorf("from %d on: %d bytes, %v", at, len(got), err)
		}
		if _, err := reader.Read(make([]byte, 1)); !errors.Is(err, errBroken) {
			t.Errorf("the next read: %v", err)
		}
		reader.Close()
	}
}

// slow is a file whose reads wait until they are let go on, and which counts them.
type slow struct {
	let   chan struct{}
	begun atomic.Int32
}

func (s *slow) ReadAt(p []byte, _ int64) (int, error) {
	s.begun.Add(1)
	<-s.let
	return len(p), nil
}

// TestCloseWaits: nobody reads from a file that its owner closes.
func TestCloseWaits(t *testing.T) {
	s := &slow{let: make(chan struct{})}
	reader := NewReader(s, 16)
	closed := make(chan struct{})
	go func() {
		reader.Close()
		close(closed)
	}()
	for range ahead {
		select {
		case <-closed:
			t.Fatal("the file is read after Close")
		case s.let <- struct{}{}:
		}
	}
	<-closed
	if n := s.begun.Load(); n != ahead {
		t.Errorf("%d reads began, where nothing was asked for: want %d", n, ahead)
	}
}

func TestCopy(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range lengths(r) {
		want := content(r, n)
		for name, from := range map[string]io.Reader{
			"whole": bytes.NewReader(want), "halves": iotest.HalfReader(bytes.NewReader(want)),
			"end with the last": iotest.DataErrReader(bytes.NewReader(want)),
		} {
			var got bytes.Buffer
			if err := Copy(&got, from, 16); err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s, %d bytes: %d, %v", name, n, got.Len(), err)
			}
		}
	}
}

// limited is a writer that takes so many bytes, and a reader that counts how often it is asked.
type limited struct {
	bytes.Buffer
	room, reads int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.room {
		return 0, errBroken
	}
	return l.Buffer.Write(p)
}

func (l *limited) Read(p []byte) (int, error) {
	l.reads++
	return len(p), nil
}

// TestCopyFails: the writer's error, or the reader's, and no goroutine that reads on.
func TestCopyFails(t *testing.T) {
	l := &limited{room: 64}
	if err := Copy(l, l, 16); !errors.Is(err, errBroken) || l.Len() != 64 {
		t.Errorf("a writer without room: %d bytes, %v", l.Len(), err)
	}
	if l.reads > 64/16+3 { // those written, one that failed, one ahead of each buffer
		t.Errorf("%d reads for %d pieces", l.reads, 64/16)
	}
	var got bytes.Buffer
	from := io.MultiReader(bytes.NewReader(make([]byte, 40)), iotest.ErrReader(errBroken))
	if err := Copy(&got, from, 16); !errors.Is(err, errBroken) || got.Len() != 40 {
		t.Errorf("a reader that fails: %d bytes, %v", got.Len(), err)
	}
}
