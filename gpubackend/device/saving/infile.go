// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/fileat"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue"
)

// InFile is what another device process needs to know of a VM that was suspended to a file: the
// next one behind the same front end, or the one to which that has moved the VM.
type InFile struct {
	Sum      uint32 // that identifies the file
	Away     bool   `json:",omitempty"` // the VM's device is going to be away
	Programs []Filed
}

// Filed is a program that is in the file.
type Filed struct {
	Channel int
	PID     int32
	Name    string
	Number  int    // among those in the file
	Bytes   uint64 // of device memory
	Anew    bool   `json:",omitempty"` // its chains were made available anew
	// Base and Held are where its queue stands, if the VM moves: its next avail index, and the
	// heads that its worker has left in flight.
	Base uint16   `json:",omitempty"`
	Held []uint16 `json:",omitempty"`
}

// MaxInFile bounds an InFile as it is written.
const MaxInFile = 8 << 20

// ErrInFile is wrapped by all errors that say what is wrong with one.
var ErrInFile = errors.New("what is known of the file with the VM's programs")

// Encode is the reverse of DecodeInFile.
func (f *InFile) Encode() []byte {
	b, _ := json.Marshal(f) // nothing in it can fail
	return b
}

// DecodeInFile reads what another process wrote, for a VM with that many channels.
func DecodeInFile(b []byte, channels int) (*InFile, error) {
	f := &InFile{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("read %w: %w", ErrInFile, err)
	}
	if len(f.Programs) == 0 {
		return nil, fmt.Errorf("%w: it has none", ErrInFile)
	}
	var at, numbers []int
	for i := range f.Programs {
		p := &f.Programs[i]
		if p.Channel < 0 || p.Channel >= channels || p.Number < 0 ||
			slices.Contains(at, p.Channel) || slices.Contains(numbers, p.Number) ||
			len(p.Name) > maxName || !areHeads(p.Held) {
			return nil, fmt.Errorf("%w: no program can be as %d in channel %d is said to be",
				ErrInFile, p.Number, p.Channel)
		}
		at, numbers = append(at, p.Channel), append(numbers, p.Number)
	}
	return f, nil
}

// areHeads says whether a queue can have left these in flight: each once.
func areHeads(held []uint16) bool {
	taken := map[uint16]bool{}
	for _, h := range held {
		if h >= virtqueue.MaxSize || taken[h] {
			return false
		}
		taken[h] = true
	}
	return true
}

// InFile is the file that the VM's programs are in; nil: none is in any.
func (s *Saving) InFile() *InFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &InFile{Sum: s.sum, Away: s.away}
	add := func(p *Program) {
		f.Programs = append(f.Programs, Filed{Channel: p.Channel, PID: p.PID, Name: p.Name,
			Number: p.number, Bytes: p.bytes, Anew: p.Anew})
	}
	for _, p := range s.saved {
		add(p)
	}
	for _, p := range s.ending {
		if s.saved[p.Channel] == nil {
			add(p)
		}
	}
	if len(f.Programs) == 0 {
		return nil
	}
	slices.SortFunc(f.Programs, func(a, b Filed) int { return a.Channel - b.Channel })
	return f
}

// TakeUp makes the VM one whose programs are in a file, as another process said. It has no program
// with a worker.
func (s *Saving) TakeUp(f *InFile) {
	s.mu.Lock()
	s.sum, s.away, s.saved = f.Sum, f.Away, map[int]*Program{}
	for _, x := range f.Programs {
		s.saved[x.Channel] = &Program{Channel: x.Channel, PID: x.PID, Name: x.Name,
			Anew: x.Anew, number: x.Number, bytes: x.Bytes}
	}
	s.mu.Unlock()
	s.noted()
}

// noted notes what InFile returns for the next process.
func (s *Saving) noted() {
	if s.config.Noted != nil {
		s.config.Noted()
	}
}

// File is a file that the VM may go on from. It was complete when it was opened.
type File struct {
	From     io.ReaderAt
	Sum      uint32 // of its last state
	VM       string // by what a VM is known whose device was away; "": it wasn't
	Programs []Filed
	// Descriptors is what open descriptors of that VM stand for: a state of package exports.
	Descriptors []byte

	all *savedvm.File
}

// Has says whether a VM that was suspended to a file with that sum can go on from this one.
func (f *File) Has(sum uint32) bool {
	return f.Sum == sum || f.all != nil && f.all.State(sum) != nil
}

// OpenFile reads a file, and says why no VM with a GPU of that kind and this version can go on from
// it.
func OpenFile(from io.ReaderAt, gpu, build string) (*File, error) {
	all, err := checkFile(from, gpu, build)
	if err != nil {
		return nil, err
	}
	last := all.Last()
	f := &File{From: from, Sum: last.Sum, VM: last.Header.VM, Descriptors: last.Descriptors,
		all: all}
	if f.VM != "" && all.Behind != nil { // nobody but the file says which state is the VM's
		return nil, all.Behind
	}
	if err := exports.Check(f.Descriptors); err != nil {
		return nil, err
	}
	for i, p := range last.Programs {
		f.Programs = append(f.Programs, Filed{Channel: p.Channel, PID: p.PID, Name: p.Name,
			Number: i, Bytes: p.Bytes})
	}
	if len(f.Programs) > 0 {
		known := InFile{Programs: f.Programs}
		_, err = DecodeInFile(known.Encode(), wire.MaxChannels)
	}
	return f, err
}

func checkFile(from io.ReaderAt, gpu, build string) (*savedvm.File, error) {
	f, err := savedvm.OpenFile(fileat.ReaderAt(from))
	if err == nil {
		err = f.Last().Header.Suits(record.Header{GPU: gpu, Version: build})
	}
	return f, err
}
