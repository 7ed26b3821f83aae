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

// content is random bytes.
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

var errBroken = errors.New("broken")

var copies = map[string]func(io.Writer, io.Reader, int) error{"Copy": Copy, "CopyHere": CopyHere}

func TestCopy(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range lengths(r) {
		want := content(r, n)
		for name, from := range map[string]func() io.Reader{
			"whole":  func() io.Reader { return bytes.NewReader(want) },
			"halves": func() io.Reader { return iotest.HalfReader(bytes.NewReader(want)) },
			"end with the last": func() io.Reader {
				return iotest.DataErrReader(bytes.NewReader(want))
			},
		} {
			for way, copyAll := range copies {
				var got bytes.Buffer
				err := copyAll(&got, from(), 16)
				if err != nil || !bytes.Equal(got.Bytes(), want) {
					t.Errorf("%s, %s, %d bytes: %d, %v", way, name, n, got.Len(), err)
				}
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

// TestCopyFails: the error is the writer's or the reader's, and no goroutine reads on.
func TestCopyFails(t *testing.T) {
	for way, copyAll := range copies {
		l := &limited{room: 64}
		if err := copyAll(l, l, 16); !errors.Is(err, errBroken) || l.Len() != 64 {
			t.Errorf("%s, a writer without room: %d bytes, %v", way, l.Len(), err)
		}
		if l.reads > 64/16+3 { // those written, one that failed, one for each of 2 buffers
			t.Errorf("%s: %d reads for %d pieces", way, l.reads, 64/16)
		}
		var got bytes.Buffer
		from := io.MultiReader(bytes.NewReader(make([]byte, 40)), iotest.ErrReader(errBroken))
		if err := copyAll(&got, from, 16); !errors.Is(err, errBroken) || got.Len() != 40 {
			t.Errorf("%s, a reader that fails: %d bytes, %v", way, got.Len(), err)
		}
	}
}

// TestEach: each part is worked on once, several at the same time, and none begins after an error.
func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, 2, widest, 1000} {
		times := make([]atomic.Int32, n)
		err := Each(n, func(i int) error {
			times[i].Add(1)
			return nil
		})
		for i := range times {
			if k := times[i].Load(); k != 1 || err != nil {
				t.Errorf("%d of %d: %d times, %v", i, n, k, err)
			}
		}
	}
	if Width() > 1 { // each waits for the other
		a, b := make(chan struct{}), make(chan struct{})
		_ = Each(2, func(i int) error {
			mine, other := a, b
			if i == 1 {
				mine, other = b, a
			}
			close(mine)
			<-other
			return nil
		})
	}
	var calls atomic.Int32
	err := Each(1000, func(i int) error {
		if calls.Add(1); i >= 10 {
			return errBroken
		}
		return nil
	})
	if n := calls.Load(); !errors.Is(err, errBroken) || n > 10+widest {
		t.Errorf("%d calls, %v", n, err)
	}
}
