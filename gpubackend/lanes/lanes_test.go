// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// ends are both ends of a stream.
func ends(t *testing.T, lanes int) (a, b *Stream) {
	t.Helper()
	a, end, err := pipe(lanes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	var fds []int // as they come to another process
	for _, fd := range end.FDs() {
		if fd, err = unix.Dup(fd); err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	if err := end.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err = Open(fds); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if len(a.lanes) != lanes || len(b.lanes) != lanes {
		t.Fatalf("%d and %d lanes, not %d", len(a.lanes), len(b.lanes), lanes)
	}
	return a, b
}

// cut cuts bytes at random.
func cut(r *rand.Rand, b []byte, longest int) (list [][]byte) {
	for len(b) > 0 {
		n := min(len(b), 1+r.IntN(longest))
		list, b = append(list, b[:n]), b[n:]
	}
	return list
}

// pass writes all, or reads it, in parts of random sizes, some of them several at once.
func pass(r *rand.Rand, all []byte, one func([]byte) error, several func([][]byte) error) error {
	for _, piece := range cut(r, all, 5*blockBytes) {
		parts := cut(r, piece, 2*blockBytes)
		if r.IntN(2) == 0 {
			if err := several(parts); err != nil {
				return err
			}
			continue
		}
		for _, p := range parts {
			if err := one(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestStream: what goes in at one end comes out at the other, however either cuts it, and in both
// directions.
func TestStream(t *testing.T) {
	for lanes := 1; lanes <= 5; lanes += 2 {
		a, b := ends(t, lanes)
		for i, way := range [][2]*Stream{{a, b}, {b, a}} {
			r := rand.New(rand.NewPCG(uint64(lanes), uint64(i)))
			want := make([]byte, 40*blockBytes+r.IntN(blockBytes))
			_, _ = rand.NewChaCha8([32]byte{byte(lanes)}).Read(want)
			w, written := way[0], make(chan error, 1)
			w.at, way[1].at = 0, 0
			go func() {
				written <- pass(rand.New(rand.NewPCG(1, uint64(i))), want, func(p []byte) error {
					_, err := w.Write(p)
					return err
				}, w.WriteParts)
			}()
			got := make([]byte, len(want))
			err := pass(r, got, func(p []byte) error {
				_, err := io.ReadFull(way[1], p)
				return err
			}, way[1].ReadParts)
			if err := errors.Join(err, <-written); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d lanes: other bytes, %v", lanes, err)
			}
		}
	}
}

// TestEnds: an end that is closed is the end of the stream for its reader, and an error for its
// writer.
func TestEnds(t *testing.T) {
	a, b := ends(t, 3)
	if _, err := a.Write(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if got, err := io.ReadAll(b); len(got) != 5 || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := b.ReadParts([][]byte{make([]byte, blockBytes)}); !errors.Is(err, io.EOF) {
		t.Errorf("parts behind the end: %v", err)
	}
	parts := [][]byte{make([]byte, 10*blockBytes)}
	if err := b.WriteParts(parts); !errors.Is(err, unix.EPIPE) {
		t.Errorf("parts that nobody reads: %v", err)
	}
	a, end, err := pipe(2)
	if err != nil {
		t.Fatal(err)
	}
	end.Close()
	if err := a.WriteParts(parts); !errors.Is(err, unix.EPIPE) {
		t.Errorf("a stream that nobody opened: %v", err)
	}
	a.Close()
}

// TestOpenOther: more files than a stream has, or none, are refused, and closed.
func TestOpenOther(t *testing.T) {
	for _, n := range []int{0, most + 1} {
		var fds []int
		for range n {
			fd, err := unix.Eventfd(0, 0)
			if err != nil {
				t.Fatal(err)
			}
			fds = append(fds, fd)
		}
		if s, err := Open(fds); !errors.Is(err, ErrStream) {
			t.Errorf("%d files are a stream of %d lanes, error %v", n, len(s.lanes), err)
		}
		for _, fd := range fds {
			if err := unix.Close(fd); !errors.Is(err, unix.EBADF) {
				t.Errorf("a file of %d is still open: %v", n, err)
			}
		}
	}
}

// TestOpenHere: a Far becomes a stream in the process that has made it.
func TestOpenHere(t *testing.T) {
	a, end, err := pipe(2)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := end.Open()
	defer b.Close()
	if err := end.Close(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = a.Write([]byte("text")) }()
	got := make([]byte, 4)
	if _, err := io.ReadFull(b, got); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
}
