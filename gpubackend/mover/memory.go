// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// memory is the guest's memory: regions in order of their addresses, none overlapping.
type memory struct{ regions []*region }

// replaced returns the memory that a message describes, which keeps the regions of m that it names
// again, and the regions that it no longer names. On error m can still be used.
func (m *memory) replaced(
	described []handover.Region, files []int,
) (next *memory, dropped []*region, err error) {
	next = &memory{}
	var added []*region
	defer func() {
		if err != nil {
			closeRegions(added)
		}
	}()
	for i, d := range described {
		if d.File < 0 || d.File >= len(files) {
			return nil, nil, fmt.Errorf("memory region %d: no file %d", i, d.File)
		}
		key, err := keyOf(d, files[d.File])
		if err != nil {
			return nil, nil, fmt.Errorf("memory region %d: %w", i, err)
		}
		r := m.region(key)
		if r == nil {
			if r, err = openRegion(key, files[d.File]); err != nil {
				return nil, nil, fmt.Errorf("memory region %d: %w", i, err)
			}
			added = append(added, r)
		}
		next.regions = append(next.regions, r)
	}
	sort.Slice(next.regions, func(i, j int) bool {
		return next.regions[i].key.guest < next.regions[j].key.guest
	})
	for i := 1; i < len(next.regions); i++ {
		if a, b := next.regions[i-1].key, next.regions[i].key; b.guest-a.guest < a.size {
			return nil, nil, fmt.Errorf("memory regions at %#x and %#x overlap", a.guest, b.guest)
		}
	}
	for _, r := range m.regions {
		if !slices.Contains(next.regions, r) {
			dropped = append(dropped, r)
		}
	}
	return next, dropped, nil
}

func (m *memory) region(key regionKey) *region {
	for _, r := range m.regions {
		if r.key == key {
			return r
		}
	}
	return nil
}

// errGuests refuses the guest's memory where a worker lends some: copies would reach all of it.
var errGuests = errors.New("the guest's memory, as what a worker lends")

// has says whether a file has some of the guest's memory, or can't be asked.
func (m *memory) has(fd int) bool {
	key, err := keyOf(handover.Region{}, fd)
	return err != nil || slices.ContainsFunc(m.regions, func(r *region) bool {
		return r.key.device == key.device && r.key.inode == key.inode
	})
}

func keyOf(d handover.Region, fd int) (regionKey, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return regionKey{}, fmt.Errorf("stat: %w", err)
	}
	return regionKey{d.GuestAddr, d.Size, d.FileOffset, st.Dev, st.Ino}, nil
}

func openRegion(key regionKey, fd int) (*region, error) {
	mem, err := guestmem.New([]guestmem.Region{{GuestAddr: key.guest, Size: key.size, FD: fd,
		FileOffset: key.offset}})
	if err != nil {
		return nil, err
	}
	host, err := mem.Slice(key.guest, key.size)
	if err != nil {
		_ = mem.Close()
		return nil, err
	}
	return &region{key: key, memory: mem, host: host, fd: mem.Regions()[0].FD}, nil
}

func closeRegions(regions []*region) {
	for _, r := range regions {
		_ = r.memory.Close()
	}
}

// holds says whether the file still has all bytes up to an offset in the region.
func (r *region) holds(end uint64) bool {
	var st unix.Stat_t
	return unix.Fstat(r.fd, &st) == nil && st.Size >= 0 && uint64(st.Size) >= r.key.offset+end
}

// find returns the index of the region that holds an address, or -1.
func (m *memory) find(guest uint64) int {
	i := sort.Search(len(m.regions), func(i int) bool { return m.regions[i].key.guest > guest }) - 1
	if i < 0 || guest-m.regions[i].key.guest >= m.regions[i].key.size {
		return -1
	}
	return i
}

// appendSpans appends the spans that runs consist of, joining what is adjacent. It returns the sum,
// and false unless all is guest memory and the sum is at most limit.
func (m *memory) appendSpans(dst []span, runs []wire.Run, limit uint64) ([]span, uint64, bool) {
	total := uint64(0)
	i := 0 // the region that holds the last run
	for _, run := range runs {
		if run.Bytes > limit-total {
			return dst, 0, false
		}
		total += run.Bytes
		guest := run.Address
		for left := run.Bytes; left > 0; {
			if i >= len(m.regions) || guest-m.regions[i].key.guest >= m.regions[i].key.size {
				if i = m.find(guest); i < 0 {
					return dst, 0, false
				}
			}
			r := m.regions[i]
			offset := guest - r.key.guest
			n := min(left, r.key.size-offset)
			dst = appendSpan(dst, r, offset, n)
			guest, left = guest+n, left-n
		}
	}
	return dst, total, true
}

func appendSpan(dst []span, r *region, offset, n uint64) []span {
	if len(dst) > 0 {
		last := &dst[len(dst)-1]
		if last.region == r && last.offset+last.bytes == offset {
			last.bytes += n
			return dst
		}
	}
	return append(dst, span{r, offset, n})
}
