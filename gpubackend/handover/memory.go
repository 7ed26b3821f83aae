// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Describe lists the regions of a memory for a message, and the files to send along. Regions of the
// same file share it.
func Describe(regions []guestmem.Region) ([]Region, []int) {
	var out []Region
	var files []int
	index := map[[2]uint64]int{}
	for _, r := range regions {
		key := identity(r.FD)
		i, ok := index[key]
		if !ok {
			i = len(files)
			index[key] = i
			files = append(files, r.FD)
		}
		out = append(out,
			Region{GuestAddr: r.GuestAddr, Size: r.Size, FileOffset: r.FileOffset, File: i})
	}
	return out, files
}

// DescribeNumbered lists the regions of a memory whose files are numbers, for a process that asks
// for mappings.
func DescribeNumbered(parts []guestmem.Numbered) (out []Region) {
	for _, p := range parts {
		out = append(out, Region{GuestAddr: p.GuestAddr, Size: p.Size, FileOffset: p.FileOffset,
			File: p.FD, ReadFile: p.ReadFD, Piece: p.Piece, Sealed: p.ShrinkSealed})
	}
	return out
}

// identity tells files apart; a file that can't be asked equals no other.
func identity(fd int) [2]uint64 {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return [2]uint64{^uint64(0), uint64(fd)}
	}
	return [2]uint64{st.Dev, st.Ino}
}

// Map returns the memory that a message describes, of which only what is touched is mapped, and
// closes the files, which it doesn't need.
func (m *Message) Map(files []int) (*guestmem.Memory, error) {
	if len(files) == 0 && len(m.Memory) > 0 {
		return m.numbered()
	}
	defer CloseFiles(files)
	var regions []guestmem.Region
	for i, r := range m.Memory {
		if r.File < 0 || r.File >= len(files) {
			return nil, fmt.Errorf("memory region %d: no file %d", i, r.File)
		}
		regions = append(regions, guestmem.Region{
			GuestAddr: r.GuestAddr, Size: r.Size, FD: files[r.File], FileOffset: r.FileOffset,
		})
	}
	return guestmem.NewSparse(regions)
}

// numbered returns a memory whose files aren't this process's.
func (m *Message) numbered() (*guestmem.Memory, error) {
	var regions []guestmem.Numbered
	for _, r := range m.Memory {
		regions = append(regions, guestmem.Numbered{
			Region: guestmem.Region{GuestAddr: r.GuestAddr, Size: r.Size, FD: r.File,
				FileOffset: r.FileOffset},
			ReadFD: cmp.Or(r.ReadFile, r.File), Piece: r.Piece, ShrinkSealed: r.Sealed,
		})
	}
	return guestmem.NewNumbered(regions)
}
