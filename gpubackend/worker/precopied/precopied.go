// SPDX-License-Identifier: Apache-2.0

// Package precopied copies a program's device memory while the program runs, before its VM is
// migrated or suspended to a file, and says at the end what the copies lack.
//
// Memory is copied in sectors, pass by pass (Step): in the first pass all, in each later one those
// that have changed since they were copied. What is in the file that the program went on from
// (package filed) needs no copy, if it goes to the same file, and hasn't changed since. Changes are
// found by sums (package sectorsum): nothing watches writes to memory. A copy that was made while a
// kernel wrote to the sector has a mix; its sum is that of the mix, so the next look finds a
// difference.
//
// Who has the copies knows them by their addresses (Changed), or by their order (Early): that of
// the addresses of all sectors that were copied, whether or not there is memory at them now.
//
// # Who owns what
//
// The worker's loop owns a Copy, and copies a little between commands. The buffer into which it
// copies belongs to the device process, and so does its content until the next Step.
//
// # Who may lie
//
// The device process is believed. What is in device memory is only copied.
package precopied

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/overlap"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/worker/filed"
	"github.com/paracuda/paracuda/gpubackend/worker/sectors"
)

// BufferBytes is how large the buffer is.
const BufferBytes = BufferSectors * sectorsum.Bytes

// BufferSectors is how many sectors fit in it.
const BufferSectors = 16

// looks is how often a Step looks at that many sectors, if none of them has changed.
const looks = 4

// Driver is what a Copy uses of gpubackend.Driver.
type Driver interface {
	gpubackend.Comparing
	SavePieces(list []gpubackend.Piece, image []byte) gpubackend.Result
	EndCopies()
}

// Config is what a Copy needs.
type Config struct {
	Driver Driver
	// Busy says why memory can't be copied now; nil: it can.
	Busy func() error
	// Key is a random number.
	Key func() uint64
}

// Copy knows the memory of which there are copies.
type Copy struct {
	Config
	buffer []byte                  // nil: there is none
	key    uint64                  // of the sums
	sums   map[uint64]copiedSector // of the sectors that were copied, or are filed, by address
	cursor uint64                  // of the pass: memory before it was looked at
	blind  bool                    // nothing can be compared, as work goes on for long
}

// copiedSector is a sector of which there is a copy.
type copiedSector struct {
	sum   uint64
	known bool   // the sum is the copy's
	filed bool   // the file has had it before, and none was made
	at    uint64 // where the file has it, in the program's memory
}

// New returns a Copy of nothing.
func New(c Config) *Copy { return &Copy{Config: c} }

// errNone says that no copying was begun.
var errNone = errors.New("no memory is copied ahead")

// Begin begins anew, without copies. The buffer is the file's content. Unless filed is nil, what
// that has needs none.
func (c *Copy) Begin(fd int, filed Filed) error {
	c.End()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size != BufferBytes {
		return fmt.Errorf("the buffer isn't one of %d bytes: %w", BufferBytes, err)
	}
	b, err := unix.Mmap(fd, 0, BufferBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the buffer: %w", err)
	}
	c.buffer, c.key, c.sums, c.cursor = b, c.Key(), map[uint64]copiedSector{}, 0
	c.blind = false
	if filed != nil {
		c.take(filed)
	}
	return nil
}

// Filed is the memory in the file that the program went on from: filed.Memory.
type Filed interface {
	Sectors() (key uint64, list []filed.Stored)
}

// take notes what the file has.
func (c *Copy) take(f Filed) {
	key, list := f.Sectors()
	c.key = key
	for _, s := range list {
		if s.Address%sectorsum.Bytes == 0 {
			c.sums[s.Address] = copiedSector{sum: s.Sum, known: true, filed: true, at: s.At}
		}
	}
}

// End forgets all copies, and the buffer.
func (c *Copy) End() {
	if c.buffer == nil {
		return
	}
	c.Driver.EndCopies()
	_ = unix.Munmap(c.buffer)
	c.buffer, c.sums = nil, nil
}

// Step copies some sectors into the buffer, one after the other, and returns their addresses; over
// says that the pass is over. If there are none, there was nothing to copy, or the Step has looked
// at as much as it may.
func (c *Copy) Step() (sectors []uint64, over bool, err error) {
	if c.buffer == nil {
		return nil, false, errNone
	}
	if err := c.Busy(); err != nil {
		return nil, false, err
	}
	list := c.present()
	for look := 0; look < looks && len(sectors) == 0 && !over; look++ {
		var next []uint64
		if next, over = c.next(list); len(next) == 0 {
			break
		}
		if sectors, err = c.differ(next); err != nil {
			return nil, false, err
		}
	}
	if err := c.copy(sectors); err != nil {
		return nil, false, err
	}
	if over {
		c.cursor = 0
		c.Driver.EndCopies()
	}
	return sectors, over, nil
}

// present are the pieces that can be copied, cut to whole sectors.
func (c *Copy) present() (list []gpubackend.Piece) {
	for _, p := range c.Driver.PresentPieces() {
		if whole(p) {
			list = append(list, p)
		}
	}
	return list
}

func whole(p gpubackend.Piece) bool {
	return p.Address%sectorsum.Bytes == 0 && p.Bytes%sectorsum.Bytes == 0
}

// next are the sectors to look at next, as many as there is room for; over says that there are no
// more after them.
func (c *Copy) next(list []gpubackend.Piece) (sectors []uint64, over bool) {
	for _, p := range list { // by their addresses
		at := max(p.Address, c.cursor)
		for ; at < p.Address+p.Bytes; at += sectorsum.Bytes {
			if len(sectors) == BufferSectors {
				c.cursor = at
				return sectors, false
			}
			sectors = append(sectors, at)
		}
	}
	c.cursor = math.MaxUint64
	return sectors, true
}

// differ are the sectors without a copy, or whose copy is out of date: if that can't be told all,
// but for those that the file has.
func (c *Copy) differ(sectors []uint64) (other []uint64, err error) {
	var known []gpubackend.Piece
	for _, at := range sectors {
		if c.sums[at].known {
			known = gpubackend.AppendPiece(known, piece(at))
		}
	}
	if len(known) == 0 || c.blind {
		return c.copied(sectors), nil
	}
	sums := make([]uint64, gpubackend.PieceBytes(known)/sectorsum.Bytes)
	switch r := c.Driver.SumPieces(c.key, known, sums); r {
	case gpubackend.Success:
	case gpubackend.NotReady:
		c.blind = true
		return c.copied(sectors), nil
	default:
		return nil, fmt.Errorf("compare device memory: %w", r.Err())
	}
	for _, at := range sectors {
		if x := c.sums[at]; x.known {
			now := sums[0]
			if sums = sums[1:]; now == x.sum {
				continue
			}
		}
		other = append(other, at)
	}
	return other, nil
}

// copied are the sectors but for those that are filed. If these have changed, they are copied when
// the program stands still, as is what they are compared with then.
func (c *Copy) copied(sectors []uint64) (list []uint64) {
	for _, at := range sectors {
		if !c.sums[at].filed {
			list = append(list, at)
		}
	}
	return list
}

func piece(sector uint64) gpubackend.Piece {
	return gpubackend.Piece{Address: sector, Bytes: sectorsum.Bytes}
}

// copy copies sectors into the buffer, and notes what was copied.
func (c *Copy) copy(sectors []uint64) error {
	if len(sectors) == 0 {
		return nil
	}
	var list []gpubackend.Piece
	for _, at := range sectors {
		list = gpubackend.AppendPiece(list, piece(at))
		if x, ok := c.sums[at]; ok { // if this fails it isn't known what its copy has
			x.known = false
			c.sums[at] = x
		}
	}
	part := c.buffer[:len(sectors)*sectorsum.Bytes]
	if r := c.Driver.SavePieces(list, part); r != gpubackend.Success {
		return fmt.Errorf("copy device memory out: %w", r.Err())
	}
	sums := make([]uint64, len(sectors))
	_ = overlap.Each(len(sums), func(i int) error {
		sums[i] = sectorsum.Of(c.key, part[i*sectorsum.Bytes:(i+1)*sectorsum.Bytes])
		return nil
	})
	for i, at := range sectors {
		c.sums[at] = copiedSector{sum: sums[i], known: true}
	}
	return nil
}

// Changed is what the copies lack of pieces to which nothing is written now: whole sectors,
// adjacent ones of a piece joined. If nothing was copied it is everything.
func (c *Copy) Changed(pieces []gpubackend.Piece) (changed []gpubackend.Piece, err error) {
	begins := make(map[uint64]struct{}, len(pieces))
	for _, p := range pieces {
		begins[p.Address] = struct{}{}
	}
	err = c.compare(pieces, func(p gpubackend.Piece, same bool) {
		_, begin := begins[p.Address]
		switch {
		case same:
		case begin:
			changed = append(changed, p)
		default:
			changed = gpubackend.AppendPiece(changed, p)
		}
	})
	return changed, err
}

// Early says what the copies, which lie one behind the other, and the file have of pieces to which
// nothing is written now, and what they lack. nil runs say that they have nothing.
func (c *Copy) Early(
	pieces []gpubackend.Piece,
) (runs []savedvm.SameRun, rest []gpubackend.Piece, err error) {
	var addresses, filed []uint64 // filed: those that are the same
	for at, x := range c.sums {
		if !x.filed {
			addresses = append(addresses, at)
		}
	}
	slices.Sort(addresses)
	var all savedvm.Whereabouts
	err = c.compare(pieces, func(p gpubackend.Piece, same bool) {
		x := c.sums[p.Address]
		switch {
		case !same:
			all.Lacks(p)
		case x.filed:
			all.Has(p, x.at)
			filed = append(filed, p.Address)
		default:
			n, _ := slices.BinarySearch(addresses, p.Address)
			all.Has(p, savedvm.InArea|uint64(n)*sectorsum.Bytes)
		}
	})
	if err != nil || all.Useless() || !c.agrees(filed) {
		return nil, pieces, err
	}
	return all.Runs, all.Rest, nil
}

// agrees says whether this process comes to the same sum of a sector that chance takes: those that
// are filed were compared by the GPU's sums alone.
func (c *Copy) agrees(list []uint64) bool {
	if len(list) == 0 {
		return true
	}
	at := list[rand.IntN(len(list))]
	defer c.Driver.EndCopies()
	return sectors.Agrees(c.Driver, c.key, at, c.sums[at].sum)
}

// compare says of each sector of pieces, and of each piece without whole sectors, whether there is
// a copy that is the same.
func (c *Copy) compare(
	pieces []gpubackend.Piece, tell func(p gpubackend.Piece, same bool),
) error {
	if c.buffer == nil {
		return errNone
	}
	defer c.Driver.EndCopies()
	c.blind = false // nothing writes now
	for _, p := range pieces {
		if !whole(p) {
			tell(p, false)
			continue
		}
		for at := p.Address; at < p.Address+p.Bytes; {
			var sectors []uint64
			for ; at < p.Address+p.Bytes && len(sectors) < compared; at += sectorsum.Bytes {
				sectors = append(sectors, at)
			}
			other, err := c.differ(sectors)
			if err != nil {
				return err
			}
			for _, x := range sectors {
				differs := len(other) > 0 && other[0] == x
				if differs {
					other = other[1:]
				}
				tell(piece(x), !differs)
			}
		}
	}
	return nil
}

// compared is how many sectors are compared at a time, while nothing else goes on.
const compared = 64 << 10
