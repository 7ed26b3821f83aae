// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzState: whatever a worker has written, the device process finds heads below the queue's size,
// each once, and the numbers that are there. What it notes itself afterwards is found again.
func FuzzState(f *testing.F) {
	f.Add([]byte{}, 0, uint16(8))
	f.Add([]byte{1, 0, 0, 0, 1}, inFlightOffset, uint16(4))
	f.Add([]byte{2, 0, 5, 0, 1, 0, 0, 0}, baseOffset, uint16(8))
	f.Add([]byte{2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 9}, baseOffset, uint16(maxHeads))
	f.Add([]byte{7, 0, 3, 0, 1, 0, 0, 0}, givingOffset, uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, at int, size uint16) {
		if at < 0 || at > stateBytes || size > maxHeads {
			return
		}
		its, err := NewState()
		if err != nil {
			t.Fatal(err)
		}
		defer its.Close()
		copy(its.mem[at:], b)
		dup, err := unix.FcntlInt(uintptr(its.FD()), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		s, err := AdoptState(dup)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.found(t, size)
		if c, first := s.Counters(), binary.LittleEndian.Uint64(its.mem); c[Commands] != first {
			t.Errorf("the first counter is %d, want %d", c[Commands], first)
		}
		s.Fixed().Map()
		s.Take(7, 1234)
		if s.Base() != 1234 || !slices.Contains(s.InFlight(8), 7) {
			t.Errorf("base %d, heads %v after head 7 was taken at 1234", s.Base(), s.InFlight(8))
		}
		s.Give(7)
		if _, _, giving := s.Given(); giving || slices.Contains(s.InFlight(8), 7) {
			t.Errorf("heads %v after head 7 was given back", s.InFlight(8))
		}
	})
}

// found checks the heads of a queue against the bytes.
func (s *State) found(t *testing.T, size uint16) {
	t.Helper()
	heads := s.InFlight(size)
	last := binary.LittleEndian.Uint64(s.mem[baseOffset:])
	for i, head := range heads {
		if head >= size || i > 0 && heads[i-1] >= head {
			t.Fatalf("heads %v of a queue of %d", heads, size)
		}
	}
	for head := range size {
		want := s.mem[inFlightOffset+int(head)] != 0 || last>>32 != 0 && uint16(last>>16) == head
		if _, has := slices.BinarySearch(heads, head); has != want {
			t.Fatalf("head %d is found: %v, want %v", head, has, want)
		}
	}
}
