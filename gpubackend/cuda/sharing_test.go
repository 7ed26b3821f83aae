// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// TestEventHandleIsPassedByValue: the fake looks at the first and the last word.
func TestEventHandleIsPassedByValue(t *testing.T) {
	d := newDevice(t, Options{})
	e, r := d.EventCreate(4 | cudaabi.EventDisableTiming)
	must(t, "create", r)
	s, fd, r := d.ShareEvent(e)
	must(t, "share", r)
	same, r := d.OpenEvent(s, fd)
	must(t, "open", r)
	if same != e || fd != -1 {
		t.Errorf("event %#x, file %d; shared %#x", same, fd, e)
	}
	s[63] ^= 1
	_, r = d.OpenEvent(s, fd)
	want(t, "another handle", r, gpubackend.InvalidHandle)
}

// TestSharedMadeAgain: another device has another process's memory where it was. This process is
// its own other one.
func TestSharedMadeAgain(t *testing.T) {
	const size = 4 << 20
	first := newDevice(t, Options{})
	own, r := first.MemAlloc(size)
	must(t, "allocate", r)
	s, fd, r := first.Share(own)
	must(t, "share", r)
	mapped, r := first.MapShared(s, fd)
	must(t, "map", r)
	unix.Close(fd)
	if why := first.Unsavable(); why != "" {
		t.Fatal(why)
	}
	if list := first.Pieces(); len(list) != 1 || list[0].Address != own-s.Offset {
		t.Errorf("%+v is this process's memory, want one piece at %#x", list, own-s.Offset)
	}
	var layout bytes.Buffer
	if err := first.SaveLayout(&layout); err != nil {
		t.Fatal(err)
	}
	first.memoryRoom.Close()

	d := openDevice(t, Options{}, &layout)
	must(t, "take", d.TakeAllocation(gpubackend.Allocation{Address: own, Bytes: size}))
	s, fd, r = d.Share(own)
	must(t, "share", r)
	defer unix.Close(fd)
	if err := d.LayoutRestored(); err == nil {
		t.Error("what is mapped is still missing")
	}
	larger := s
	larger.Bytes *= 2
	for at, s := range map[uint64]gpubackend.Shared{mapped + 512: s, own: s, 4096: s,
		mapped: larger} {
		if r := d.TakeShared(at, s, fd); r == gpubackend.Success {
			t.Errorf("%+v is taken at %#x", s, at)
		}
	}
	must(t, "take what is shared", d.TakeShared(mapped, s, fd))
	if r := d.TakeShared(mapped, s, fd); r == gpubackend.Success {
		t.Error("it is taken twice")
	}
	if err := d.LayoutRestored(); err != nil {
		t.Fatal(err)
	}
	if why := d.Unsavable(); why != "" {
		t.Error(why)
	}
	copy(cmem.At(own, 16), "what is in here.")
	if text := string(cmem.At(mapped+s.Offset, 16)); text != "what is in here." {
		t.Errorf("what is shared has %q", text)
	}
	must(t, "unmap", d.UnmapShared(mapped))
	must(t, "free", d.MemFree(own))
}
