// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Region is a piece of guest memory as the front end names it.
type Region struct {
	GuestAddr  uint64 // guest-physical address
	Size       uint64 // bytes
	UserAddr   uint64 // address in the front end, in which it states ring addresses
	MmapOffset uint64 // where in the file the region begins
	FD         *FD    // the file
}

// ShrinkSealed reports whether the front end has given up the means to cut the file short.
func (r Region) ShrinkSealed() bool {
	seals, err := unix.FcntlInt(uintptr(r.FD.Int()), unix.F_GET_SEALS, 0)
	return err == nil && seals&unix.F_SEAL_SHRINK != 0
}

// sameRange reports whether two regions are the same memory to the front end.
func (r Region) sameRange(o Region) bool {
	return r.GuestAddr == o.GuestAddr && r.Size == o.Size && r.UserAddr == o.UserAddr
}

// Memory is a table of regions, sorted by guest-physical address. It doesn't change, and isn't
// mapped: see Map. It can be made again in another process by NewMemory, from the same regions with
// descriptors that were passed over a socket.
type Memory struct {
	regions []Region
}

// NewMemory checks a table and takes ownership of its descriptors, on success only.
func NewMemory(regions []Region) (*Memory, error) {
	m := &Memory{regions: append([]Region(nil), regions...)}
	for _, r := range m.regions {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("region at %#x: %w", r.GuestAddr, err)
		}
	}
	byUser := append([]Region(nil), regions...)
	sort.Slice(byUser, func(i, j int) bool { return byUser[i].UserAddr < byUser[j].UserAddr })
	sort.Slice(m.regions,
		func(i, j int) bool { return m.regions[i].GuestAddr < m.regions[j].GuestAddr })
	for i := 1; i < len(m.regions); i++ {
		if a, b := m.regions[i-1], m.regions[i]; b.GuestAddr-a.GuestAddr < a.Size {
			return nil, fmt.Errorf("%w: regions at %#x and %#x overlap", ErrProtocol, a.GuestAddr,
				b.GuestAddr)
		}
		if a, b := byUser[i-1], byUser[i]; b.UserAddr-a.UserAddr < a.Size {
			return nil, fmt.Errorf("%w: regions at user addresses %#x and %#x overlap",
				ErrProtocol, a.UserAddr, b.UserAddr)
		}
	}
	return m, nil
}

// check refuses a region that is empty, wraps around in any of its address spaces, or isn't backed
// by enough of a file.
func (r Region) check() error {
	switch {
	case r.Size == 0:
		return fmt.Errorf("%w: empty", ErrProtocol)
	case r.GuestAddr > math.MaxUint64-r.Size:
		return fmt.Errorf("%w: guest addresses wrap", ErrProtocol)
	case r.UserAddr > math.MaxUint64-r.Size:
		return fmt.Errorf("%w: user addresses wrap", ErrProtocol)
	case r.MmapOffset > math.MaxInt64 || r.Size > math.MaxInt64-r.MmapOffset:
		return fmt.Errorf("%w: mmap offset %#x is too large", ErrProtocol, r.MmapOffset)
	}
	var st unix.Stat_t
	if err := unix.Fstat(r.FD.Int(), &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%w: a file of mode %#o is no memory", ErrProtocol, st.Mode)
	}
	if uint64(st.Size) < r.MmapOffset+r.Size {
		return fmt.Errorf("%w: the file has %d bytes, the region ends at %d",
			ErrProtocol, st.Size, r.MmapOffset+r.Size)
	}
	return nil
}

// Regions returns the table. The descriptors stay owned by the Memory.
func (m *Memory) Regions() []Region { return append([]Region(nil), m.regions...) }

// Translate turns a range of front-end addresses, which must lie in one region, into the
// guest-physical address of its first byte.
func (m *Memory) Translate(user, size uint64) (uint64, error) {
	for _, r := range m.regions {
		if user >= r.UserAddr && user-r.UserAddr < r.Size && size <= r.Size-(user-r.UserAddr) {
			return r.GuestAddr + (user - r.UserAddr), nil
		}
	}
	if len(m.regions) == 0 {
		return 0, ErrNotShared
	}
	return 0, fmt.Errorf("%w: %d bytes at user address %#x aren't in one region", ErrProtocol, size,
		user)
}

// ShrinkSealed reports whether no region can be cut short by the front end.
func (m *Memory) ShrinkSealed() bool {
	for _, r := range m.regions {
		if !r.ShrinkSealed() {
			return false
		}
	}
	return len(m.regions) > 0
}

// Map maps the memory. The mapping has descriptors of its own.
func (m *Memory) Map() (*guestmem.Memory, error) {
	regions := make([]guestmem.Region, len(m.regions))
	for i, r := range m.regions {
		regions[i] = guestmem.Region{
			GuestAddr: r.GuestAddr, Size: r.Size, FD: r.FD.Int(), FileOffset: r.MmapOffset,
		}
	}
	return guestmem.New(regions)
}

// Close closes the descriptors of all regions.
func (m *Memory) Close() error {
	var errs []error
	for _, r := range m.regions {
		errs = append(errs, r.FD.Close())
	}
	m.regions = nil
	return errors.Join(errs...)
}

// sharedSamples is how many places CheckShared looks at. A guest whose kernel runs has written to
// so much of its memory that it can't miss all of them.
const sharedSamples = 4096

// CheckShared returns ErrNotShared if the memory can't be the guest's: there is none, or, in a
// guest whose driver is running, nothing in it was ever written. QEMU before 11 passes a private
// file in that case and says nothing. The check reads the file, as touching a mapping would fill
// its holes.
func (m *Memory) CheckShared() error {
	if len(m.regions) == 0 {
		return ErrNotShared
	}
	var total uint64
	for _, r := range m.regions {
		total += r.Size / sharedSamples
	}
	var buf [64]byte
	for _, r := range m.regions {
		step := max(total, uint64(len(buf)))
		for off := uint64(0); off < r.Size; off += step {
			part := buf[:min(uint64(len(buf)), r.Size-off)]
			n, err := unix.Preadv2(r.FD.Int(), [][]byte{part}, int64(r.MmapOffset+off), 0)
			if err != nil {
				return fmt.Errorf("read guest memory: %w", err)
			}
			for _, b := range buf[:n] {
				if b != 0 {
					return nil
				}
			}
		}
	}
	return fmt.Errorf("nothing was ever written to it: %w", ErrNotShared)
}
