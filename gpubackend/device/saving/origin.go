// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
)

// origin is the state in a file from which the programs went on.
type origin struct {
	file     fileMark
	sum      uint32
	first    int64 // bytes of the file's first state
	states   int
	runs     int
	programs map[Worker]originProgram
}

// originProgram is what the state has of a program.
type originProgram struct {
	number, parts int
	bytes         uint64 // of device memory
}

// fileMark is by what a file is known that nobody has written to.
type fileMark struct {
	device, file uint64
	bytes        int64
	written      syscall.Timespec
}

// identify says what a file is. One that isn't known to be a file is none.
func identify(f any) (id fileMark, ok bool) {
	file, is := f.(interface{ Stat() (os.FileInfo, error) })
	if !is {
		return id, false
	}
	info, err := file.Stat()
	if err != nil {
		return id, false
	}
	x, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return id, false
	}
	return fileMark{x.Dev, x.Ino, x.Size, x.Mtim}, true
}

// errOther says that a file with content isn't the one.
var errOther = errors.New("the file isn't the one that the VM went on from in this device " +
	"process, or was written to since: give another name, or remove it")

// wentOn notes from which state of a file the programs went on.
func (s *Saving) wentOn(f io.ReaderAt, id fileMark, file *savedvm.File, from *savedvm.State,
	list []*begun,
) {
	b := &origin{file: id, sum: from.Sum, first: file.States[0].End, states: len(file.States),
		runs: file.Runs(), programs: map[Worker]originProgram{}}
	if now, ok := identify(f); !ok || now != id || from != file.Last() || file.Behind != nil {
		b = nil // nothing can be written behind it
	}
	for _, x := range list {
		if b != nil && x.worker != nil {
			bytes, parts := from.Memory(x.number)
			b.programs[x.worker] = originProgram{x.number, parts, bytes}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.origin = b
}

// roomBehind is how much may follow a file's first state in any case. More may follow only if it is
// no more than the first state has.
const roomBehind = 16 << 20

// most says why nothing may be written behind what a file has.
func (b *origin) most() error {
	if b.file.bytes-b.first > max(b.first, roomBehind) || b.states >= savedvm.MaxStates {
		return record.ErrGrown
	}
	return nil
}

// behind is where the VM is to be written in a file, and what that has of it; nil: nothing.
func (s *Saving) behind(f *os.File) (*rewritable, *origin, error) {
	to := &rewritable{File: f}
	id, ok := identify(f)
	switch {
	case !ok:
		return nil, nil, errors.New("the file can't be looked at")
	case id.bytes == 0:
		return to, nil, nil
	}
	s.mu.Lock()
	b := s.origin
	s.mu.Unlock()
	if b == nil || b.file != id {
		return nil, nil, errOther
	}
	to.start, to.at = id.bytes, id.bytes
	return to, b, b.most()
}

// takeBack takes away what was written behind what a file had; nil: it had nothing.
func (s *Saving) takeBack(f *rewritable, b *origin) error {
	if err := f.anew(); err != nil {
		return fmt.Errorf("what was written to the file stays in it: %w", err)
	}
	id, _ := identify(f.File)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b != nil && b == s.origin && id.bytes == b.file.bytes {
		b.file = id // it has been written to, and is what it was
	}
	return nil
}

// bytes is how much device memory the state has.
func (b *origin) bytes() (n uint64) {
	if b == nil {
		return 0
	}
	for _, p := range b.programs {
		n += p.bytes
	}
	return n
}

// of is what the state has of a worker's program, nil if it has nothing.
func (b *origin) of(w Worker) (*savedvm.Base, originProgram) {
	if b == nil {
		return nil, originProgram{}
	}
	p, ok := b.programs[w]
	if !ok {
		return nil, p
	}
	return &savedvm.Base{Number: p.number, Sum: b.sum}, p
}
