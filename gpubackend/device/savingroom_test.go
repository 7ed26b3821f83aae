// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// content is all that a file has.
func (s *suspended) content(f *os.File) []byte {
	s.t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// mustLackRoom: there is no room for what is in the file, for that reason. No worker is left, and
// nothing has changed.
func (s *suspended) mustLackRoom(f *os.File, why string) {
	s.t.Helper()
	before := s.content(f)
	_, err := s.dev.saving.Load(f, noProgress)
	if err == nil || !strings.Contains(err.Error(), why) {
		s.t.Fatalf("%v, want %q", err, why)
	}
	if n, taken := s.workers(), inLedger(s.page); n != 0 || taken != 0 {
		s.t.Fatalf("%d workers are left, with %d bytes", n, taken)
	}
	x := s.dev.suspension.Status()
	if x.State != suspend.Suspended || !x.Saved || !s.dev.saving.Has(0) {
		s.t.Fatalf("%+v", x)
	}
	if !bytes.Equal(s.content(f), before) {
		s.t.Fatal("the file has changed")
	}
}

// TestNoRoomForAFile: a VM isn't resumed from its file while others have the GPU's memory. When
// there is room, its program goes on as if nothing had been.
func TestNoRoomForAFile(t *testing.T) {
	s, _ := onLibrary(t)
	s.allocate(apart)
	s.allocate(apart)
	for range 2 {
		f := s.saveTo()
		for _, room := range []uint64{0, apart + apart/2} { // for nothing, for the first piece
			t.Setenv("FAKE_ROOM", strconv.FormatUint(room, 10))
			s.mustLackRoom(f, "out of device memory")
		}
		if err := os.Unsetenv("FAKE_ROOM"); err != nil {
			t.Fatal(err)
		}
		s.resumeFrom(f)
		s.mustHold()
	}
}

// TestLessMemoryThanInAFile: a VM isn't resumed from its file while it may have less memory than
// its program needs. It doesn't matter how much it might have when that began.
func TestLessMemoryThanInAFile(t *testing.T) {
	s := newSuspended(t)
	s.allocate(apart)
	set := func(setting string) {
		t.Helper()
		if err := s.dev.Set(setting); err != nil {
			t.Fatal(err)
		}
	}
	for _, enough := range []string{"memory=0", "memory=100M", "memory=1G", "memory=100M"} {
		f := s.saveTo()
		set("memory=1M")
		s.mustLackRoom(f, "and the VM may have 1048576: set memory=")
		set(enough)
		s.resumeFrom(f)
		s.mustHold()
	}
}
