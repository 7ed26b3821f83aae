// SPDX-License-Identifier: Apache-2.0

// Package remains keeps what a device process leaves to the next one when it dies, besides its
// front end's session: descriptors, each with its place, and a few facts. Package resumption keeps
// both for it.
//
// # Facts
//
// They are in a checkpoint, little-endian: u32 version (5), u32 generation, u32 sequence of the
// settings, u32 flags (1: the VM is suspended, 2: by an arbiter's order), u32 version of the
// protocol with the guest's driver, u64 where that vouches for pages, u32 version of the protocol
// between processes, u32 number of bytes that say to which file the VM is suspended, and these
// bytes, then a line "KEY=VALUE\n" for each setting that was changed while the VM ran.
//
// Earlier versions of this program left facts of other versions, which are read, too: 4 has no
// version of the protocol between processes, 3 nor the u64, 2 nor the bytes with their number, and
// 1 neither flags nor protocol.
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
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

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
	version     = 5
	withoutFile = 2
	withFile    = 3
	withPages   = 4
	flagsAt     = 12 // where the head of version 1 ended
	protocolAt  = 16
	addressAt   = 20 // where that of version 2 ended
	betweenAt   = 28
	headBytes   = 36
	fileBytes   = 4        // before the bytes that say which file: the head's end from version 3 on
	maxFile     = 64 << 10 // of that
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
	Between    uint32   // version of the protocol with the children; 0: not noted
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
	other []uint32 // numbers of no place that this version has
	early bool     // the file is another version's, and stays that until this process serves
}

// New takes what the process before this one has left, if there was one: its facts, or nil.
func New(store Store, left map[uint32]int) (*Remains, *Facts, error) {
	r := &Remains{store: store, left: map[Purpose]int{}}
	for number, fd := range left {
		if p := Purpose(number); p < end {
			r.left[p] = fd
		} else {
			handover.CloseFiles([]int{fd})
			r.other = append(r.other, number)
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
	r.early = r.file.Room() < room || binary.LittleEndian.Uint32(state) != version
	f := r.facts
	return r, &f, nil
}

// room is the greatest length of facts.
const room = headBytes + maxFile + maxText

func (r *Remains) create() (err error) {
	if r.file, err = checkpoint.Create(room); err != nil {
		return err
	}
	r.facts.Protocol, r.facts.Between = wire.Version, handover.Protocol
	if err := r.file.Write(r.facts.append(nil)); err != nil {
		return err
	}
	return r.store.KeepOwn(uint32(facts), r.file.FD())
}

// Serves says that this process serves the VM. Until then all stays as another version has left it,
// which goes on if this one can't.
func (r *Remains) Serves() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, number := range r.other {
		errs = append(errs, r.store.DropOwn(number))
	}
	r.other = nil
	if r.early {
		r.early = false
		errs = append(errs, r.replace())
	}
	r.err = cmp.Or(r.err, errors.Join(errs...))
}

// replace replaces another version's file.
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
	little := binary.LittleEndian
	for _, v := range []uint32{version, f.Generation, f.Sequence, f.flags(), f.Protocol} {
		b = little.AppendUint32(b, v)
	}
	b = little.AppendUint64(b, f.Vouchers)
	b = little.AppendUint32(b, f.Between)
	b = append(little.AppendUint32(b, uint32(len(f.InFile))), f.InFile...)
	for _, s := range f.Settings {
		b = append(append(b, s...), '\n')
	}
	return b
}

// parse is the inverse, for facts that may be any bytes.
func (f *Facts) parse(b []byte) error {
	head, ok := headOf(b)
	var after int
	if ok {
		f.InFile, after, ok = fileOf(b, head)
	}
	if !ok || len(b)-after > maxText {
		return fmt.Errorf("%w: %d bytes, or not of version %d", ErrFacts, len(b), version)
	}
	little := binary.LittleEndian
	f.Generation, f.Sequence = little.Uint32(b[4:]), little.Uint32(b[8:])
	if head > flagsAt {
		flags := little.Uint32(b[flagsAt:])
		if flags&^(flagSuspended|flagOrdered) != 0 {
			return fmt.Errorf("%w: flags %#x", ErrFacts, flags)
		}
		f.Suspended, f.Ordered = flags&flagSuspended != 0, flags&flagOrdered != 0
		f.Protocol = little.Uint32(b[protocolAt:])
	}
	if head >= betweenAt+fileBytes {
		f.Vouchers = little.Uint64(b[addressAt:])
	}
	if head == headBytes {
		f.Between = little.Uint32(b[betweenAt:])
	}
	text := string(b[after:])
	if text == "" {
		return nil
	}
	if !strings.HasSuffix(text, "\n") || strings.Count(text, "\n") > maxSettings {
		return fmt.Errorf("%w: settings that aren't lines, or too many", ErrFacts)
	}
	f.Settings = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return nil
}

// headOf returns how many bytes the head has, as its version says; false: these aren't facts.
func headOf(b []byte) (head int, ok bool) {
	if len(b) < flagsAt {
		return 0, false
	}
	head, ok = map[uint32]int{1: flagsAt, withoutFile: addressAt, withFile: addressAt + fileBytes,
		withPages: betweenAt + fileBytes, version: headBytes}[binary.LittleEndian.Uint32(b)]
	return head, ok && len(b) >= head
}

// fileOf returns the bytes that say which file, if there are some, and where they end.
func fileOf(b []byte, head int) (file []byte, after int, ok bool) {
	if head <= addressAt {
		return nil, head, true
	}
	n := binary.LittleEndian.Uint32(b[head-fileBytes:])
	if n > maxFile || int(n) > len(b)-head {
		return nil, 0, false
	}
	after = head + int(n)
	return append(file, b[head:after]...), after, n > 0 || head > addressAt+fileBytes
}

// Note changes the facts. If it fails, Err says why.
func (r *Remains) Note(change func(*Facts)) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.facts)
	if r.file != nil && r.err == nil && !r.early {
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
