// SPDX-License-Identifier: Apache-2.0

// Package remains keeps what a device process leaves to the next one when it dies, besides its
// front end's session: descriptors, each with its place, and a few facts. Package resumption keeps
// both for it.
//
// # Facts
//
// They are in a checkpoint, little-endian: u32 version (2), u32 generation, u32 sequence of the
// settings, u32 flags (1: the VM is suspended, 2: by an arbiter's order), u32 version of the
// protocol with the guest's driver, then a line "KEY=VALUE\n" for each setting that was changed
// while the VM ran. Version 1 had neither flags nor protocol. Version 3 is for a VM that is
// suspended to a file: before the lines it has a u32, the number of bytes that say which file, and
// these bytes. Version 4 is for a driver that vouches for pages: before that u32, which may be 0,
// it has an u64, where it does.
//
// # Trust
//
// What was left comes from a process that crashed, perhaps because a guest made it. Facts of
// another form are refused. The reader of a setting checks it, like one on the command line.
// Whoever takes a descriptor checks what it is.
//
// # Concurrency
//
// All methods may be called from anywhere. On a nil Remains they keep nothing and find nothing.
package remains

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/checkpoint"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Store keeps descriptors, which stay the caller's, until another process takes this one's place.
type Store interface {
	KeepOwn(number uint32, fd int) error
	DropOwn(number uint32) error
}

// Purpose is what a descriptor is for.
type Purpose uint32

// The places.
const (
	facts    Purpose = iota
	Starter          // the connection to the starter process
	ChildLog         // what the children write to the log, to be read
	Door             // the socket that front ends connect to
	Admin            // the socket of set and stats
	Control          // the record of what is in flight in the control queue
	Roster           // which children serve the VM
	Mover            // the connection to the mover
	Ledger           // in which children count device memory
	Gate             // that tells workers whether it is their VM's turn: GateFiles of them

	Objects = Gate + GateFiles // what programs have exported
	Numbers = Objects + 1      // that stand for files of the guest's memory

	states  Purpose = 64
	records Purpose = states + wire.MaxChannels
	workers Purpose = records + wire.MaxChannels
	objects Purpose = workers + wire.MaxChannels
	pidfds  Purpose = objects + mostObjects
	asking  Purpose = pidfds + Pidfds
	reading Purpose = asking + wire.MaxChannels
	end     Purpose = reading + MostReading
)

// Pidfds is how many descriptors of children are kept.
const Pidfds = 256

const mostObjects = 256

// GateFiles is how many places the gate has, from Gate on.
const GateFiles = handover.GateFiles

// State is the place of what a channel's worker notes about its queue.
func State(channel int) Purpose { return states + Purpose(channel) }

// Record is the place of what is in flight in the queue of a channel without a worker.
func Record(channel int) Purpose { return records + Purpose(channel) }

// Worker is the place of the connection to a channel's worker.
func Worker(channel int) Purpose { return workers + Purpose(channel) }

// ChannelOf is the channel of which a place has the worker's connection.
func ChannelOf(p Purpose) (channel int, is bool) {
	return int(p - workers), p >= workers && p < objects
}

// Listener is the place of that by which this process decides on what a channel's worker maps.
func Listener(channel int) Purpose { return asking + Purpose(channel) }

// MostReading is how many files of the guest's memory are kept, opened to be read only. Most VMs
// have one.
const MostReading = 64

// Reading is the place of such a file, by a number below MostReading.
func Reading(number int) Purpose { return reading + Purpose(number) }

// Object is the place of the file of something that programs have exported, by its number below
// 256.
func Object(number int) Purpose { return objects + Purpose(number) }

// Pidfd is the place of a descriptor that names a child, by its number below Pidfds.
func Pidfd(number int) Purpose { return pidfds + Purpose(number) }

// ErrFacts marks facts that can't be used.
var ErrFacts = errors.New("bad facts of a process before this one")

const (
	version     = 2
	withFile    = 3 // of a VM whose programs are in a file
	withPages   = 4 // of one whose driver vouches for pages
	headBytes   = 20
	fileBytes   = 4        // before the bytes that say which file
	maxFile     = 64 << 10 // of that
	flagsAt     = 12       // where the head of version 1 ended
	protocolAt  = 16
	addressAt   = headBytes // of version 4
	addrBytes   = 8
	maxText     = 32 << 10
	maxSettings = 256
)

// Facts are what isn't in any descriptor.
type Facts struct {
	Generation uint32   // that the driver was last told
	Sequence   uint32   // of the settings that it was told
	Suspended  bool     // the VM is suspended
	Ordered    bool     // an arbiter has ordered it to be, or is about to order the reverse
	Protocol   uint32   // version of the protocol with the driver; 0: not noted
	Vouchers   uint64   // where the driver vouches for pages; 0: nowhere
	InFile     []byte   // in which file the VM's programs are, for its reader; nil: in none
	Settings   []string // KEY=VALUE, that were changed
}

const (
	flagSuspended = 1 << iota
	flagOrdered
)

func (f *Facts) flags() (flags uint32) {
	if f.Suspended {
		flags |= flagSuspended
	}
	if f.Ordered {
		flags |= flagOrdered
	}
	return flags
}

// Remains are what this process leaves, and what was left to it.
type Remains struct {
	store Store

	mu    sync.Mutex
	left  map[Purpose]int // guarded by mu, as is what follows
	file  *checkpoint.File
	facts Facts
	err   error
}

// New takes what the process before this one has left, if there was one: its facts, or nil.
func New(store Store, left map[uint32]int) (*Remains, *Facts, error) {
	r := &Remains{store: store, left: map[Purpose]int{}}
	for number, fd := range left {
		if p := Purpose(number); p < end {
			r.left[p] = fd
		} else {
			handover.CloseFiles([]int{fd})
			_ = store.DropOwn(number)
		}
	}
	var err error
	fd, again := r.left[facts]
	if !again {
		err = r.create()
		if err != nil {
			r.Close()
			return nil, nil, err
		}
		return r, nil, nil
	}
	delete(r.left, facts)
	var state []byte
	if r.file, state, err = checkpoint.Open(fd); err != nil {
		handover.CloseFiles([]int{fd})
	} else {
		err = r.facts.parse(state)
	}
	if err != nil {
		r.Close()
		return nil, nil, fmt.Errorf("take over from the process before: %w", err)
	}
	if r.file.Room() < room {
		err = r.replace()
	}
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	f := r.facts
	return r, &f, nil
}

// room is the greatest length of facts.
const room = headBytes + addrBytes + fileBytes + maxFile + maxText

func (r *Remains) create() (err error) {
	if r.file, err = checkpoint.Create(room); err != nil {
		return err
	}
	r.facts.Protocol = wire.Version
	if err := r.file.Write(r.facts.append(nil)); err != nil {
		return err
	}
	return r.store.KeepOwn(uint32(facts), r.file.FD())
}

// replace replaces a checkpoint of an earlier version, which has less room.
func (r *Remains) replace() error {
	before := r.file
	defer before.Close()
	file, err := checkpoint.Create(room)
	if err != nil {
		return err
	}
	r.file = file
	if err := file.Write(r.facts.append(nil)); err != nil {
		return err
	}
	return r.store.KeepOwn(uint32(facts), file.FD())
}

func (f *Facts) append(b []byte) []byte {
	number := uint32(version)
	switch {
	case f.Vouchers != 0:
		number = withPages
	case f.InFile != nil:
		number = withFile
	}
	for _, v := range []uint32{number, f.Generation, f.Sequence, f.flags(), f.Protocol} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	if number == withPages {
		b = binary.LittleEndian.AppendUint64(b, f.Vouchers)
	}
	if number != version {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(f.InFile))), f.InFile...)
	}
	for _, s := range f.Settings {
		b = append(append(b, s...), '\n')
	}
	return b
}

// parse is the inverse, for facts that may be any bytes.
func (f *Facts) parse(b []byte) error {
	head, file, ok := headOf(b)
	if !ok || len(b)-head > maxText {
		return fmt.Errorf("%w: %d bytes, or not of version %d", ErrFacts, len(b), version)
	}
	f.InFile = file
	f.Vouchers = vouchersOf(b)
	f.Generation = binary.LittleEndian.Uint32(b[4:])
	f.Sequence = binary.LittleEndian.Uint32(b[8:])
	if head >= headBytes {
		flags := binary.LittleEndian.Uint32(b[flagsAt:])
		if flags&^(flagSuspended|flagOrdered) != 0 {
			return fmt.Errorf("%w: flags %#x", ErrFacts, flags)
		}
		f.Protocol = binary.LittleEndian.Uint32(b[protocolAt:])
		f.Suspended, f.Ordered = flags&flagSuspended != 0, flags&flagOrdered != 0
	}
	text := string(b[head:])
	if text == "" {
		return nil
	}
	if !strings.HasSuffix(text, "\n") || strings.Count(text, "\n") > maxSettings {
		return fmt.Errorf("%w: settings that aren't lines, or too many", ErrFacts)
	}
	f.Settings = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return nil
}

// headOf returns how many bytes come before the settings, and how many of these say which file;
// false: these aren't facts.
func headOf(b []byte) (head int, file []byte, ok bool) {
	if len(b) < flagsAt {
		return 0, nil, false
	}
	v := binary.LittleEndian.Uint32(b)
	switch {
	case v == 1:
		return flagsAt, nil, true
	case v == version && len(b) >= headBytes:
		return headBytes, nil, true
	case v == withPages && len(b) >= headBytes+addrBytes+fileBytes:
		head = headBytes + addrBytes + fileBytes
	case v == withFile && len(b) >= headBytes+fileBytes:
		head = headBytes + fileBytes
	default:
		return 0, nil, false
	}
	n := binary.LittleEndian.Uint32(b[head-fileBytes:])
	if n == 0 && v == withPages {
		return head, nil, true
	}
	if n == 0 || n > maxFile || int(n) > len(b)-head {
		return 0, nil, false
	}
	file = append(file, b[head:head+int(n)]...)
	return head + int(n), file, true
}

// vouchersOf is where a driver vouches for pages, as the facts b say.
func vouchersOf(b []byte) uint64 {
	if binary.LittleEndian.Uint32(b) != withPages {
		return 0
	}
	return binary.LittleEndian.Uint64(b[addressAt:])
}

// Note changes the facts. If it fails, Err says why.
func (r *Remains) Note(change func(*Facts)) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.facts)
	if r.file != nil && r.err == nil {
		r.err = r.file.Write(r.facts.append(nil))
	}
}

// Changed notes a setting, KEY=VALUE, in place of an earlier one with that key.
func (r *Remains) Changed(text string) {
	r.Note(func(f *Facts) {
		key, _, _ := strings.Cut(text, "=")
		for i, s := range f.Settings {
			if strings.HasPrefix(s, key+"=") {
				f.Settings[i] = text
				return
			}
		}
		f.Settings = append(f.Settings, text)
	})
}

// Keep keeps a descriptor at a place, instead of what was there. The caller keeps its own.
func (r *Remains) Keep(p Purpose, fd int) {
	if r != nil {
		r.fail(r.store.KeepOwn(uint32(p), fd))
	}
}

// Drop drops what is kept at a place.
func (r *Remains) Drop(p Purpose) {
	if r != nil {
		r.fail(r.store.DropOwn(uint32(p)))
	}
}

func (r *Remains) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// Err is the first reason why something couldn't be kept; nil: all was kept.
func (r *Remains) Err() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Take returns, once, what the process before this one has left at a place. The caller owns it; it
// also stays kept until it is dropped or replaced.
func (r *Remains) Take(p Purpose) (fd int, left bool) {
	if r == nil {
		return -1, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if fd, left = r.left[p]; !left {
		return -1, false
	}
	delete(r.left, p)
	return fd, true
}

// Look returns a descriptor of the caller's own for what Take would return, which stays there.
func (r *Remains) Look(p Purpose) (fd int, left bool) {
	if r == nil {
		return -1, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if fd, left = r.left[p]; !left {
		return -1, false
	}
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return fd, err == nil
}

// Close closes what nobody has taken.
func (r *Remains) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, fd := range r.left {
		handover.CloseFiles([]int{fd})
		delete(r.left, p)
	}
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}
