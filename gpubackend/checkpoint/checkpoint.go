// SPDX-License-Identifier: Apache-2.0

// Package checkpoint keeps the last state that a process has written as a whole, in memory that
// outlives the process: if it is killed while it writes, the state before is still there. What a
// state means, only its user knows.
//
// # Layout
//
// A memfd of a header and two slots, little-endian, each at a multiple of 4096 bytes:
//
//	header: u64 magic ("PCUDACKP"), u32 version (1), u32 room of a slot in bytes
//	slot:   u64 sequence (0: none is written), u32 bytes, u32 checksum, then the state
//
// The checksum is CRC-32C, of the slot's sequence and length and of the state. States are numbered
// from 1 on; the next one goes to the slot that doesn't have the last. The slot's sequence is
// cleared first and set last, and a slot whose checksum is wrong has no state: after a write that
// was cut off, the state before it is found.
//
// # Trust
//
// The file's length is sealed: nobody can cut it short. Contents come from a process that crashed,
// perhaps because a guest made it: every length is checked before it is used, and the state is read
// once, into memory of the reader's own. The checksum shows a torn write, not a forged one: whoever
// reads a state checks each of its fields.
//
// # Concurrency
//
// A File belongs to one goroutine, and the memfd to one writer at a time.
package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/fileat"
)

const (
	magic   = 0x504b434144554350 // "PCUDACKP"
	version = 1

	align      = 4096
	headerSize = 16
	slotHeader = 16
	slots      = 2

	// lastSequence is more than the number of states that can ever be written.
	lastSequence = 1 << 63
)

// MaxRoom is the most room that a slot may have.
const MaxRoom = 16 << 20

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

var (
	// ErrDamaged marks a file that isn't a checkpoint, or has no whole state.
	ErrDamaged = errors.New("damaged checkpoint")
	// ErrRoom says that a state is too long.
	ErrRoom = errors.New("no room in the checkpoint")
)

var (
	little = binary.LittleEndian
	crc    = crc32.MakeTable(crc32.Castagnoli)
)

// File is a checkpoint.
type File struct {
	fd   int
	room uint32
	last uint64 // sequence of the last state; 0: there is none
	slot int    // in which it is
	buf  []byte // a slot, to be written in one call
}

// stride is how far apart the slots are.
func stride(room uint32) int64 {
	return (slotHeader + int64(room) + align - 1) / align * align
}

// size is the file's length.
func size(room uint32) int64 { return align + slots*stride(room) }

// Create makes a checkpoint without a state, for states of up to room bytes.
func Create(room uint32) (*File, error) {
	if room == 0 || room > MaxRoom {
		return nil, fmt.Errorf("%w: %d bytes", ErrRoom, room)
	}
	fd, err := unix.MemfdCreate("checkpoint", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	var header [headerSize]byte
	little.PutUint64(header[:], magic)
	little.PutUint32(header[8:], version)
	little.PutUint32(header[12:], room)
	if err = unix.Ftruncate(fd, size(room)); err == nil {
		if _, err = fileat.Write(fd, header[:], 0); err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("make a checkpoint: %w", err)
	}
	return &File{fd: fd, room: room}, nil
}

// Open opens the checkpoint of an earlier process and returns its last state; nil: it wrote none.
// It owns the descriptor if it succeeds.
func Open(fd int) (*File, []byte, error) {
	f := &File{fd: fd}
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	var state []byte
	touched := false
	for i := range slots {
		seq, s, dirty, err := f.read(i)
		if err != nil {
			return nil, nil, err
		}
		touched = touched || dirty
		switch {
		case seq == 0:
		case seq == f.last:
			return nil, nil, fmt.Errorf("%w: two states have number %d", ErrDamaged, seq)
		case seq > f.last:
			f.last, f.slot, state = seq, i, s
		}
	}
	// The first write may have been cut off. Otherwise one slot is whole at any moment.
	if f.last == 0 && touched {
		return nil, nil, fmt.Errorf("%w: no state is whole", ErrDamaged)
	}
	return f, state, nil
}

// check reads the header.
func (f *File) check() error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return fmt.Errorf("%w: stat: %w", ErrDamaged, err)
	}
	has, err := unix.FcntlInt(uintptr(f.fd), unix.F_GET_SEALS, 0)
	if err != nil || has&seals != seals {
		return fmt.Errorf("%w: its length isn't sealed", ErrDamaged)
	}
	var header [headerSize]byte
	if err := fileat.Read(f.fd, header[:], 0); err != nil {
		return fmt.Errorf("%w: header: %w", ErrDamaged, err)
	}
	if m := little.Uint64(header[:]); m != magic {
		return fmt.Errorf("%w: magic %#x", ErrDamaged, m)
	}
	if v := little.Uint32(header[8:]); v != version {
		return fmt.Errorf("%w: version %d, want %d", ErrDamaged, v, version)
	}
	f.room = little.Uint32(header[12:])
	if f.room == 0 || f.room > MaxRoom || st.Size != size(f.room) {
		return fmt.Errorf("%w: %d bytes with room for %d", ErrDamaged, st.Size, f.room)
	}
	return nil
}

// Room is how long a state may be.
func (f *File) Room() uint32 { return f.room }

// at is where a slot is.
func (f *File) at(slot int) int64 { return align + int64(slot)*stride(f.room) }

// read returns the state of a slot; sequence 0: it has none. dirty says that the slot has more than
// a first write leaves that was cut off: it has, or had, a whole state.
func (f *File) read(slot int) (seq uint64, state []byte, dirty bool, err error) {
	var head [slotHeader]byte
	if err := fileat.Read(f.fd, head[:], f.at(slot)); err != nil {
		return 0, nil, false, fmt.Errorf("%w: slot %d: %w", ErrDamaged, slot, err)
	}
	seq = little.Uint64(head[:])
	n, sum := little.Uint32(head[8:]), little.Uint32(head[12:])
	if seq == 0 {
		return 0, nil, false, nil
	}
	if seq >= lastSequence || n > f.room {
		return 0, nil, true, nil
	}
	state = make([]byte, n)
	if err := fileat.Read(f.fd, state, f.at(slot)+slotHeader); err != nil {
		return 0, nil, false, fmt.Errorf("%w: slot %d: %w", ErrDamaged, slot, err)
	}
	if checksum(head[:12], state) != sum {
		return 0, nil, true, nil
	}
	return seq, state, true, nil
}

// checksum is the checksum of a slot's sequence, length and state.
func checksum(head, state []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, crc), crc, state)
}

// Write makes state the last one. When it returns nil, Open will find this state, or a later one.
func (f *File) Write(state []byte) error {
	if uint64(len(state)) > uint64(f.room) {
		return fmt.Errorf("%w: %d bytes, there is room for %d", ErrRoom, len(state), f.room)
	}
	slot, seq := (f.slot+1)%slots, f.last+1
	f.buf = append(f.buf[:0], make([]byte, slotHeader)...)
	f.buf = append(f.buf, state...)
	little.PutUint64(f.buf, seq)
	little.PutUint32(f.buf[8:], uint32(len(state)))
	little.PutUint32(f.buf[12:], checksum(f.buf[:12], state))
	var none [8]byte
	for _, part := range []struct {
		b  []byte
		at int64
	}{{none[:], 0}, {f.buf[8:], 8}, {f.buf[:8], 0}} {
		if _, err := fileat.Write(f.fd, part.b, f.at(slot)+part.at); err != nil {
			return fmt.Errorf("write a checkpoint: %w", err)
		}
	}
	f.slot, f.last = slot, seq
	return nil
}

// FD is the descriptor, which stays the File's.
func (f *File) FD() int { return f.fd }

// Close closes the descriptor.
func (f *File) Close() error { return unix.Close(f.fd) }
