// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// fakeSource has maps, and guest memory of a page.
type fakeSource struct {
	maps   map[uint32]*Map
	memory [4096]byte
	asked  []guestmem.Extent // last
}

func (s *fakeSource) Find(id uint32) *Map { return s.maps[id] }
func (s *fakeSource) Return(m *Map) {
	if s.maps[m.ID] == m {
		delete(s.maps, m.ID)
	}
}

func (s *fakeSource) each(b []byte, parts []guestmem.Extent, move func(b, guests []byte)) error {
	s.asked = parts
	for _, x := range parts {
		if x.Addr > 4096 || x.Bytes > 4096-x.Addr {
			return errors.New("beyond memory")
		}
		move(b[:x.Bytes], s.memory[x.Addr:][:x.Bytes])
		b = b[x.Bytes:]
	}
	return nil
}
func (s *fakeSource) Read(b []byte, parts []guestmem.Extent) error {
	return s.each(b, parts, func(b, guests []byte) { copy(b, guests) })
}
func (s *fakeSource) Write(b []byte, parts []guestmem.Extent) error {
	return s.each(b, parts, func(b, guests []byte) { copy(guests, b) })
}

// newMaps returns three maps of 16 bytes in two runs: 1 is plain, 2 is writable, 3 for one command.
func newMaps() (*Maps, *fakeSource) {
	s := &fakeSource{maps: map[uint32]*Map{}}
	for id, flags := range []uint32{1: 0, 2: wire.MapFlagWrite, 3: wire.MapFlagOneshot} {
		if id > 0 {
			s.maps[uint32(id)] = &Map{
				ID: uint32(id), Bytes: 16, Offset: 4, Flags: flags,
				Runs: []wire.Run{{Address: 100, Bytes: 10}, {Address: 200, Bytes: 10}},
			}
		}
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	return New(s, logrus.NewEntry(log)), s
}

func on(id uint32, offset, bytes uint64) call.Reference {
	return call.ReferenceOf(wire.BufferMap<<56|uint64(id)<<32|offset, bytes)
}

func TestNamed(t *testing.T) {
	for _, tt := range []struct {
		r     call.Reference
		write bool
		want  gpubackend.Result
	}{
		{on(1, 0, 16), false, 0}, {on(1, 16, 0), false, 0}, {on(2, 5, 11), true, 0},
		{on(9, 0, 1), false, gpubackend.InvalidValue},
		{on(1, 0, 17), false, gpubackend.InvalidValue},
		{on(1, 17, 0), false, gpubackend.InvalidValue},
		{on(1, 8, ^uint64(0)), false, gpubackend.InvalidValue},
		{on(1, 0, 1), true, gpubackend.InvalidValue},
	} {
		s, _ := newMaps()
		if m, got := s.Named(tt.r, tt.write); got != tt.want || (m != nil) != (got == 0) {
			t.Errorf("%+v: %v", tt.r, got)
		}
	}
}

func TestPagesAreReadAndWritten(t *testing.T) {
	s, source := newMaps()
	in, _ := s.Pages(on(2, 3, 8), true)
	in.Write([]byte("abcdefgh"))
	if got := string(source.memory[107:110]) + string(source.memory[200:205]); got != "abcdefgh" {
		t.Errorf("memory has %q", got)
	}
	out, _ := s.Pages(on(1, 2, 10), false)
	b := make([]byte, 10)
	if result := out.Read(b); result != gpubackend.Success || string(b) != "\x00abcdefgh\x00" {
		t.Errorf("%q, %v", b, result)
	}
	source.maps[1].Runs[1].Address = 4095
	if result := out.Read(b); result != gpubackend.InvalidValue || source.maps[1].Users() != 0 {
		t.Errorf("beyond memory: %v, %d users", result, source.maps[1].Users())
	}
}

// TestMapsGoBackWhenNothingUsesThem, those for one command by themselves.
func TestMapsGoBackWhenNothingUsesThem(t *testing.T) {
	s, source := newMaps()
	m := s.Find(1)
	s.Use(m)
	s.Use(m)
	if s.Release(m); s.Find(1) == nil {
		t.Error("went while it is used")
	}
	if s.Give(m); s.Find(1) == nil || !m.Leaving() {
		t.Error("went while it is used, though it was given back")
	}
	if s.Drop(m); s.Find(1) != nil {
		t.Error("stays without a use")
	}
	one := s.Find(3)
	s.Use(one)
	s.Use(one)
	if s.Release(one); s.Find(3) == nil {
		t.Error("a map for one command went while it is used")
	}
	if s.Release(one); s.Find(3) != nil || len(source.maps) != 1 {
		t.Error("a map for one command stays")
	}
}

// TestErrorsGiveUnusedMaps that are for one command.
func TestErrorsGiveUnusedMaps(t *testing.T) {
	command := &arena.Command{N: 3}
	for i, id := range []uint64{1, 3, 9} {
		command.Words[i] = wire.BufferMap<<56 | id<<32
	}
	c := &call.Call{Command: command}
	s, source := newMaps()
	s.GiveUnused(c, gpubackend.Success)
	s.GiveUnused(c, gpubackend.NotReady)
	m := s.Find(3)
	s.Use(m)
	if s.GiveUnused(c, gpubackend.InvalidValue); len(source.maps) != 3 || m.Leaving() {
		t.Errorf("%d maps are left", len(source.maps))
	}
	m.users = 0
	if s.GiveUnused(c, gpubackend.InvalidValue); len(source.maps) != 2 || s.Find(3) != nil {
		t.Errorf("%d maps are left", len(source.maps))
	}
}

// TestPartsNameTheirRuns: each part of guest memory is asked for by the run of the voucher that it
// is in.
func TestPartsNameTheirRuns(t *testing.T) {
	s, source := newMaps()
	source.maps[2].Voucher = 7
	pages, result := s.Pages(on(2, 0, 16), true)
	if result != gpubackend.Success {
		t.Fatal(result)
	}
	pages.Write(make([]byte, 16))
	by := func(i uint32) guestmem.Right {
		return vouchers.Reason{Kind: vouchers.Pages, Chain: 7, Index: i}.Right()
	}
	want := []guestmem.Extent{{Addr: 104, Bytes: 6, By: by(0)}, {Addr: 200, Bytes: 10, By: by(1)}}
	if !slices.Equal(source.asked, want) {
		t.Errorf("%+v, want %+v", source.asked, want)
	}
	if pages, result = s.Pages(on(2, 10, 4), false); result == gpubackend.Success {
		result = pages.Read(make([]byte, 4))
	}
	want = []guestmem.Extent{{Addr: 204, Bytes: 4, By: by(1)}}
	if result != gpubackend.Success || !slices.Equal(source.asked, want) {
		t.Errorf("%d: %+v, want %+v", result, source.asked, want)
	}
}
