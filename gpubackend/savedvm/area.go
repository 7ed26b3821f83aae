// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/paracuda/paracuda/gpubackend/overlap"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// MaxSectors is how many sectors an area may have, and all programs of a record: a TiB.
const MaxSectors = 4 << 20

// sectorBytes is the length of a Sector as it is written.
const (
	sectorBytes    = 8
	maxSectorBytes = MaxSectors * sectorBytes
)

// Sector is a sector of device memory in an area.
type Sector struct {
	Number uint32 // in the area, from 0
	Sum    uint32 // its CRC-32C
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SumOf is the Sum of a Sector with this content.
func SumOf(sector []byte) uint32 { return crc32.Checksum(sector, castagnoli) }

// Area is where sectors lie in a file.
type Area struct {
	Start   int64
	Sectors uint32
}

// areaFormat is the number of the format.
const areaFormat = 1

// areaMagic begins an area.
var areaMagic = [8]byte{'p', 'c', 's', 'e', 'c', 't', 'o', 'r'}

// areaHeadBytes is the length of an area's head: a page, so that sectors lie on pages in a file
// that begins with it.
const areaHeadBytes = 4096

// areaHead is what the head has; the rest is zero.
type areaHead struct {
	Magic   [8]byte
	Format  uint32
	Sectors uint32
}

// Head is what is written where the area begins.
func (a Area) Head() []byte {
	b := make([]byte, 0, areaHeadBytes)
	b, _ = binary.Append(b, binary.LittleEndian, // of a fixed size: it can't fail
		&areaHead{areaMagic, areaFormat, a.Sectors})
	return b[:areaHeadBytes]
}

// At is where a sector lies.
func (a Area) At(number uint32) int64 {
	return a.Start + areaHeadBytes + int64(number)*sectorsum.Bytes
}

// End is where the area ends, and the record begins.
func (a Area) End() int64 { return a.At(a.Sectors) }

// areaAt is the area at a place of a file. One without sectors ends where it begins: there is none.
func areaAt(from io.ReaderAt, start int64) (a Area, end int64, err error) {
	a.Start = start
	b := make([]byte, areaHeadBytes)
	n, err := from.ReadAt(b, start)
	if err != nil && !errors.Is(err, io.EOF) {
		return a, start, fmt.Errorf("read %w: %w", ErrSaved, err)
	}
	if !bytes.HasPrefix(b, areaMagic[:]) {
		return a, start, nil
	}
	var h areaHead
	_, _ = binary.Decode(b, binary.LittleEndian, &h) // it is long enough
	if a.Sectors = h.Sectors; n < len(b) || a.Sectors == 0 || a.Sectors > MaxSectors ||
		!bytes.Equal(b, a.Head()) {
		return a, start, fmt.Errorf("%w is of another format than this version reads, or damaged",
			ErrSaved)
	}
	return a, a.End(), nil
}

// encodeSectors writes section "sectors".
func encodeSectors(list []Source) (b []byte) {
	for _, s := range list {
		for _, x := range s.Sectors {
			b = binary.LittleEndian.AppendUint32(b, x.Number)
			b = binary.LittleEndian.AppendUint32(b, x.Sum)
		}
	}
	return b
}

// decodeSectors reads section "sectors". All must be in the area.
func decodeSectors(b []byte, a Area) ([]Sector, error) {
	list := make([]Sector, len(b)/sectorBytes)
	for i := range list {
		x := b[i*sectorBytes:]
		list[i] = Sector{binary.LittleEndian.Uint32(x), binary.LittleEndian.Uint32(x[4:])}
		if list[i].Number >= a.Sectors {
			return nil, fmt.Errorf("%w has sector %d of %d", ErrSaved, list[i].Number, a.Sectors)
		}
	}
	return list, nil
}

// areaMemory is a program's memory in an area, one sector behind the other.
type areaMemory struct {
	from io.ReaderAt
	area Area
	list []Sector
}

func (e *areaMemory) bytes() uint64 {
	if e == nil {
		return 0
	}
	return uint64(len(e.list)) * sectorsum.Bytes
}

// StretchOf implements content.
func (e *areaMemory) StretchOf(offset uint64) (number, bytes uint64) {
	return offset / sectorsum.Bytes, sectorsum.Bytes - offset%sectorsum.Bytes
}

// sectorRooms are for sectors that are read.
var sectorRooms = sync.Pool{New: func() any { return new([sectorsum.Bytes]byte) }}

// Read implements content.
func (e *areaMemory) Read(parts []record.Excerpt) error {
	room := sectorRooms.Get().(*[sectorsum.Bytes]byte)
	defer sectorRooms.Put(room)
	number, _ := e.StretchOf(parts[0].Offset)
	if err := e.load(number, room[:]); err != nil {
		return err
	}
	for _, p := range parts { // none is longer than what follows in its stretch
		copy(p.To, room[p.Offset%sectorsum.Bytes:])
	}
	return nil
}

// load reads a sector, and compares it with its sum.
func (e *areaMemory) load(number uint64, room []byte) error {
	s := e.list[number]
	if n, err := e.from.ReadAt(room, e.area.At(s.Number)); n < len(room) {
		return fmt.Errorf("read %w: %w", ErrSaved, err)
	}
	if SumOf(room) != s.Sum {
		return fmt.Errorf("%w is damaged: the sum of a sector is wrong", ErrSaved)
	}
	return nil
}

// check reads the sectors that runs take.
func (e *areaMemory) check(runs []SameRun) error {
	var used []uint64
	for _, r := range runs {
		if r.where() != inArea {
			continue
		}
		for at := r.at(); at < r.at()+r.Same; {
			number, left := e.StretchOf(at)
			if n := len(used); n == 0 || used[n-1] != number { // they are in order
				used = append(used, number)
			}
			at += left
		}
	}
	return overlap.Each(len(used), func(i int) error {
		room := sectorRooms.Get().(*[sectorsum.Bytes]byte)
		defer sectorRooms.Put(room)
		return e.load(used[i], room[:])
	})
}
