// SPDX-License-Identifier: Apache-2.0

package space

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/memfd"
)

const testBase, testSize = devmem.Base + devmem.Window, 16 << 30

func open(t *testing.T) *Space {
	t.Helper()
	s, err := Open(testBase, testSize, GPU{Limit: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestSegmentIsReachedAsLongAsItIsThere, and is 0 when it is allocated again.
func TestSegmentIsReachedAsLongAsItIsThere(t *testing.T) {
	s := open(t)
	for range 2 {
		addr, err := s.Heap(0).AllocSegment(ledger.Window, 4<<20)
		if err != nil {
			t.Fatal(err)
		}
		if b := Bytes(addr, 4<<20); b[0] != 0 || b[len(b)-1] != 0 {
			t.Error("old content")
		} else {
			b[0], b[len(b)-1] = 1, 2
		}
		if base, end, writable, ok := s.View(0).Lookup(addr); !ok || !writable || base > addr ||
			end < addr+4<<20 {
			t.Errorf("looked up %#x to %#x, %v, %v", base, end, writable, ok)
		}
		if err := s.Heap(0).Free(addr); err != nil {
			t.Fatal(err)
		}
		if s.Covers(addr, 1, false) {
			t.Error("still reached")
		}
		if Bytes(addr, 1)[0] != 0 { // whoever looked it up before reads zeros
			t.Error("content is left")
		}
	}
}

// TestSegmentOfAFile: it is that file's memory, and the window's own again once it is freed.
func TestSegmentOfAFile(t *testing.T) {
	s := open(t)
	fd, err := memfd.New("test", 2*devmem.Granularity)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Pwrite(fd, []byte("second"), devmem.Granularity); err != nil {
		t.Fatal(err)
	}
	var addr uint64
	s.WithFile(fd, devmem.Granularity, func() {
		addr, err = s.Heap(0).AllocSegment(ledger.Window, devmem.Granularity)
	})
	if err != nil || s.Owns(addr) {
		t.Fatalf("allocated %v, own %v", err, s.Owns(addr))
	}
	if got := string(Bytes(addr, 6)); got != "second" {
		t.Errorf("got %q", got)
	}
	if err := s.Heap(0).Free(addr); err != nil {
		t.Fatal(err)
	}
	again, err := s.Heap(0).AllocSegment(ledger.Window, devmem.Granularity)
	if err != nil || again != addr || Bytes(again, 1)[0] != 0 {
		t.Errorf("at %#x again (%v), with %d", again, err, Bytes(again, 1)[0])
	}
}

func TestWindowIsTaken(t *testing.T) {
	open(t)
	if _, err := Open(testBase, testSize, GPU{Limit: 64 << 20}); err == nil {
		t.Error("two windows at one place")
	}
}
