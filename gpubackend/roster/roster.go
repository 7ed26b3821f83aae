// SPDX-License-Identifier: Apache-2.0

// Package roster notes which children of a device process serve its VM, for the next device
// process, which finds them by their numbers and goes on with them.
//
// # Layout
//
// The list is in a checkpoint, little-endian: u32 version (1), u32 how many follow, then for each:
//
//	u32 role (1 worker, 2 mover)
//	u32 number, by which the starter process knows it
//	u32 channel, u32 pid of the guest process, 16 bytes name of its program, padded with 0
//	u32 entry, on the pages that workers share
//	u32 base: the next avail index when it began
//	u32 flags: 1 it was started ahead of use, 2 it is gone, and one that begins cold is to take
//	its place
//
// A child that is gone has no entry any more: another may have it.
//
// # Trust
//
// A list comes from a process that crashed, perhaps because a guest made it. A list of another
// form, or with two children in the same place, is refused as a whole: then the children end.
//
// # Concurrency
//
// All methods may be called from anywhere. On a nil Roster they note nothing.
package roster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/paracuda/paracuda/gpubackend/checkpoint"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Role is what a child does.
type Role uint32

// The roles.
const (
	Worker Role = 1 + iota
	Mover
)

// Child is a child that serves.
type Child struct {
	Role   Role
	Number uint32
	// For a worker:
	Channel int
	PID     int32
	Name    string
	Entry   int
	Base    uint16
	Ahead   bool
	Cold    bool // it is gone, and one that begins cold is to take its place
}

// place is what only one child can have.
type place struct {
	role    Role
	channel int
}

func (c *Child) place() place { return place{c.Role, c.Channel} }

const (
	version    = 1
	headBytes  = 8
	nameBytes  = 16
	childBytes = 7*4 + nameBytes
	flagAhead  = 1
	flagCold   = 2

	// MaxChildren is how many there may be: a worker for each channel, and the mover.
	MaxChildren = wire.MaxChannels + 1
)

// ErrList marks a list that can't be used.
var ErrList = errors.New("bad list of children of a process before this one")

var little = binary.LittleEndian

// Roster is the list of this process's children.
type Roster struct {
	remains *remains.Remains

	mu   sync.Mutex
	file *checkpoint.File // guarded by mu, as is what follows
	list map[uint32]Child // by number
	err  error
}

// New makes a list, and returns the list of the process before this one, if there was one. Without
// remains there is neither.
func New(r *remains.Remains) (*Roster, []Child, error) {
	if r == nil {
		return nil, nil, nil
	}
	x := &Roster{remains: r, list: map[uint32]Child{}}
	var before []Child
	fd, again := r.Take(remains.Roster)
	if again {
		var state []byte
		var err error
		if x.file, state, err = checkpoint.Open(fd); err != nil {
			handover.CloseFiles([]int{fd})
		} else {
			before, err = parse(state)
		}
		if err == nil {
			for _, c := range before {
				x.list[c.Number] = c
			}
			return x, before, nil
		}
		x.Close()
		return nil, nil, fmt.Errorf("take over children: %w", err)
	}
	var err error
	if x.file, err = checkpoint.Create(headBytes + MaxChildren*childBytes); err != nil {
		return nil, nil, err
	}
	if err = x.file.Write(encode(nil)); err != nil {
		x.Close()
		return nil, nil, err
	}
	r.Keep(remains.Roster, x.file.FD())
	return x, nil, nil
}

// Close ends the list's use. It stays kept.
func (x *Roster) Close() {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file != nil {
		_ = x.file.Close()
		x.file = nil
	}
}

// Began notes a child that serves, whose descriptors are kept, instead of the one that had its
// place.
func (x *Roster) Began(c Child) {
	x.change(func() {
		maps.DeleteFunc(x.list, func(_ uint32, other Child) bool {
			return other.place() == c.place()
		})
		x.list[c.Number] = c
	})
}

// AwaitsCold notes that a child is gone, and that one which begins cold is to take its place.
func (x *Roster) AwaitsCold(number uint32) {
	x.change(func() {
		if c, is := x.list[number]; is {
			c.Cold = true
			x.list[number] = c
		}
	})
}

// Ended forgets a child, before its descriptors are dropped. It may never have begun.
func (x *Roster) Ended(number uint32) {
	x.change(func() { delete(x.list, number) })
}

func (x *Roster) change(f func()) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	f()
	if x.file == nil || x.err != nil {
		return
	}
	x.err = x.file.Write(encode(slices.Collect(maps.Values(x.list))))
}

// Err is the first reason why something couldn't be noted; nil: all was.
func (x *Roster) Err() error {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

func encode(list []Child) []byte {
	b := little.AppendUint32(little.AppendUint32(nil, version), uint32(len(list)))
	for _, c := range list {
		var name [nameBytes]byte
		copy(name[:], c.Name)
		for _, v := range []uint32{uint32(c.Role), c.Number, uint32(c.Channel), uint32(c.PID)} {
			b = little.AppendUint32(b, v)
		}
		b = append(b, name[:]...)
		flags := uint32(0)
		if c.Ahead {
			flags |= flagAhead
		}
		if c.Cold {
			flags |= flagCold
		}
		for _, v := range []uint32{uint32(c.Entry), uint32(c.Base), flags} {
			b = little.AppendUint32(b, v)
		}
	}
	return b
}

// parse is the inverse, for a list that may be any bytes.
func parse(b []byte) ([]Child, error) {
	if len(b) < headBytes || little.Uint32(b) != version {
		return nil, fmt.Errorf("%w: not of version %d", ErrList, version)
	}
	n := little.Uint32(b[4:])
	b = b[headBytes:]
	if n > MaxChildren || len(b) != int(n)*childBytes {
		return nil, fmt.Errorf("%w: %d children in %d bytes", ErrList, n, len(b))
	}
	list := make([]Child, n)
	numbers, places := map[uint32]bool{}, map[place]bool{}
	entries := map[int]bool{}
	for i := range list {
		c, err := parseChild(b[i*childBytes:][:childBytes])
		if err != nil {
			return nil, err
		}
		counts := c.Role == Worker && !c.Cold
		if numbers[c.Number] || places[c.place()] || counts && entries[c.Entry] {
			return nil, fmt.Errorf("%w: child %d has another's place", ErrList, c.Number)
		}
		numbers[c.Number], places[c.place()] = true, true
		entries[c.Entry] = entries[c.Entry] || counts
		list[i] = c
	}
	return list, nil
}

func parseChild(b []byte) (c Child, err error) {
	name := b[16:][:nameBytes]
	rest := b[16+nameBytes:]
	entry, base, flags := little.Uint32(rest), little.Uint32(rest[4:]), little.Uint32(rest[8:])
	channel := little.Uint32(b[8:])
	c = Child{Role: Role(little.Uint32(b)), Number: little.Uint32(b[4:]), Channel: int(channel),
		PID: int32(little.Uint32(b[12:])), Name: string(bytes.TrimRight(name, "\x00")),
		Entry: int(entry), Base: uint16(base),
		Ahead: flags&flagAhead != 0, Cold: flags&flagCold != 0}
	if c.Role != Worker && c.Role != Mover || channel >= wire.MaxChannels ||
		entry >= wire.MaxChannels || base > 0xffff || flags&^(flagAhead|flagCold) != 0 {
		return c, fmt.Errorf("%w: role %d, channel %d, entry %d, base %d, flags %#x", ErrList,
			c.Role, channel, entry, base, flags)
	}
	return c, nil
}
