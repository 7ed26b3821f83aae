// SPDX-License-Identifier: Apache-2.0

package virtqueuetest

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Span is a range of guest-physical addresses.
type Span struct{ Addr, Size uint64 }

// Guest is memory for a driver and a device under test, each span in a memfd of its own.
type Guest struct {
	Mem   *guestmem.Memory
	FDs   []int // one for each span
	Spans []Span

	tb   testing.TB
	next uint64 // first free address, for Alloc
}

// NewGuest makes a guest with the given spans. It is closed when the test ends.
func NewGuest(tb testing.TB, spans ...Span) *Guest {
	tb.Helper()
	g := &Guest{tb: tb, Spans: spans, next: spans[0].Addr}
	var regions []guestmem.Region
	for _, s := range spans {
		fd := MemFD(tb, s.Size)
		g.FDs = append(g.FDs, fd)
		regions = append(regions, guestmem.Region{GuestAddr: s.Addr, Size: s.Size, FD: fd})
	}
	mem, err := guestmem.New(regions)
	if err != nil {
		tb.Fatalf("make guest: %v", err)
	}
	g.Mem = mem
	tb.Cleanup(func() {
		if err := mem.Close(); err != nil {
			tb.Errorf("close guest memory: %v", err)
		}
	})
	return g
}

// MemFD makes a memory file that allows sealing, and closes it when the test ends.
func MemFD(tb testing.TB, size uint64) int {
	tb.Helper()
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		tb.Fatalf("memfd_create: %v", err)
	}
	tb.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		tb.Fatalf("ftruncate: %v", err)
	}
	return fd
}

// Alloc returns an unused range of the first span.
func (g *Guest) Alloc(size, align uint64) uint64 {
	g.tb.Helper()
	addr := (g.next + align - 1) / align * align
	if addr+size > g.Spans[0].Addr+g.Spans[0].Size {
		g.tb.Fatalf("guest has no room for %d bytes", size)
	}
	g.next = addr + size
	return addr
}

// Write stores bytes at a guest-physical address.
func (g *Guest) Write(addr uint64, p []byte) {
	g.tb.Helper()
	if err := g.Mem.Write(p, addr); err != nil {
		g.tb.Fatalf("guest write: %v", err)
	}
}

// Read loads bytes from a guest-physical address.
func (g *Guest) Read(addr, n uint64) []byte {
	g.tb.Helper()
	p := make([]byte, n)
	if err := g.Mem.Read(p, addr); err != nil {
		g.tb.Fatalf("guest read: %v", err)
	}
	return p
}
