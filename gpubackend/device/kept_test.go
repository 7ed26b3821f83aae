// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// rewrite changes a byte at the beginning of memory.
func (s *suspended) rewrite(addr uint64) {
	s.t.Helper()
	b := append([]byte(nil), s.want[addr]...)
	b[s.random.IntN(len(b))] ^= 1
	s.place(addr, b)
}

// copied suspends the VM and resumes it, checks its memory, and returns how many bytes were copied
// out.
func (s *suspended) copied() uint64 {
	s.t.Helper()
	m := s.mustSuspend()
	if x := s.dev.suspension.Status(); x.Kept != 0 || x.Image != m.Bytes {
		s.t.Fatalf("%+v while %d bytes are out", x, m.Bytes)
	}
	s.mustResume()
	s.mustHold()
	return m.Bytes - m.Unchanged
}

// copiesWhatChanged checks that a VM that was suspended before copies nothing of memory that is as
// it was, and one sector where a byte has changed.
func (s *suspended) copiesWhatChanged() {
	s.t.Helper()
	if n := s.copied(); n != 0 {
		s.t.Errorf("%d bytes were copied of memory that nobody wrote to", n)
	}
	for addr := range s.want {
		s.rewrite(addr)
		if n := s.copied(); n != sectorsum.Bytes {
			s.t.Errorf("%d bytes were copied for one that changed at %#x", n, addr)
		}
	}
}

// TestSuspendedAgain: of a VM that was suspended before only what has changed is copied, as long as
// its image may be kept.
func TestSuspendedAgain(t *testing.T) {
	s := newSuspended(t, "suspend-keep=64M")
	for _, size := range []uint64{4096, 100000, apart, 12 << 20} {
		s.allocate(size)
	}
	all := s.copied()
	if x := s.dev.suspension.Status(); x.Kept != all || all == 0 {
		t.Fatalf("%+v, of %d bytes", x, all)
	}
	s.copiesWhatChanged()
	// Memory that is freed and allocated again is copied, whatever was at its addresses before.
	for _, addr := range s.addresses {
		s.do(gpubackend.OpMemFree, addr)
	}
	clear(s.want)
	s.allocate(3 * apart)
	s.allocate(apart)
	if n := s.copied(); n < 3*apart {
		t.Errorf("%d bytes were copied", n)
	}
	kept := s.dev.suspension.Status().Kept
	if n := s.copied(); n != 0 || kept == 0 {
		t.Errorf("%d bytes were copied, %d were kept", n, kept)
	}
	if err := s.dev.Set("suspend-keep=4096"); err != nil {
		t.Fatal(err)
	}
	if x := s.dev.suspension.Status(); x.Kept != 0 {
		t.Errorf("%+v with a lower bound", x)
	}
	if n := s.copied(); n != kept {
		t.Errorf("%d bytes were copied, want %d: nothing may be kept", n, kept)
	}
	if n := s.copied(); n != kept {
		t.Errorf("%d bytes were copied the next time", n)
	}
}

// TestKeptWithoutRoom: no image is kept if the host has little memory when the VM goes on.
func TestKeptWithoutRoom(t *testing.T) {
	s := newSuspended(t, "suspend-keep=64M")
	s.allocate(apart)
	all := s.copied()
	s.mustSuspend()
	s.dev.config.HostMemory = func() (uint64, error) { return all - 1, nil }
	s.mustResume()
	if x := s.dev.suspension.Status(); x.Kept != 0 {
		t.Fatalf("%+v", x)
	}
	s.mustHold()
	s.refused(admin.Request{Suspend: true}, "and the host has", suspend.Running)
	s.dev.config.HostMemory = func() (uint64, error) { return all, nil }
	if n := s.copied(); n != all {
		t.Errorf("%d bytes were copied", n)
	}
}

// TestSuspendedAgainByLibrary: the same where a driver's library has the memory, and computes the
// sums of its sectors.
func TestSuspendedAgainByLibrary(t *testing.T) {
	s, _ := onLibrary(t)
	if err := s.dev.Set("suspend-keep=256M"); err != nil {
		t.Fatal(err)
	}
	s.allocate(5 << 20)
	s.allocate(apart)
	if n := s.copied(); n < apart+5<<20 {
		t.Errorf("%d bytes were copied at first", n)
	}
	s.copiesWhatChanged()
}
