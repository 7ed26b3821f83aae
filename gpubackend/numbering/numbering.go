// SPDX-License-Identifier: Apache-2.0

// Package numbering has the numbers that stand for the files of a guest's memory, for processes
// that have no such file and ask the device process for each mapping (package mapleave). A number
// stands for one file for as long as the VM runs, and for none afterwards: numbers are never used
// again, also not by the next device process. Each file has another number where it is opened to be
// read only.
//
// # Layout
//
// The numbers are in a checkpoint, little-endian: u32 version (1), u32 next number, u32 how many
// follow, then for each: u64 device and u64 inode of the file, u32 number.
//
// # Trust
//
// What was left comes from a process that crashed, perhaps because a guest made it. It is checked
// for its form, and refused as a whole. Files come from the front end, which may send any: two that
// are the same have the same number.
//
// # Concurrency
//
// All methods may be called from anywhere. Nil Numbers have none.
package numbering

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/checkpoint"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
)

// file tells files apart.
type file struct{ device, inode uint64 }

// Numbers are those of a guest's memory.
type Numbers struct {
	remains *remains.Remains
	first   uint32
	end     uint32 // the numbers end before it

	mu   sync.Mutex
	kept *checkpoint.File // nil: there is nobody to keep it; guarded by mu, as is what follows
	next uint32
	of   map[file]uint32
}

const (
	version   = 1
	headBytes = 12
	fileBytes = 20
	mostFiles = 1024 // a front end has fewer
	room      = headBytes + mostFiles*fileBytes
)

// The errors.
var (
	ErrLeft = errors.New("bad numbers of the guest's memory, from a process before this one")
	ErrFull = errors.New("there are no numbers left for files of the guest's memory")
)

var little = binary.LittleEndian

// New makes numbers from first on, count of them, or goes on with those that the previous process
// has left. As many behind these are for files that are opened to be read only.
func New(r *remains.Remains, first, count uint32) (*Numbers, error) {
	n := &Numbers{remains: r, first: first, end: first + count, next: first,
		of: map[file]uint32{}}
	if fd, again := r.Take(remains.Numbers); again {
		if err := n.goOn(fd); err != nil {
			return nil, err
		}
		return n, nil
	}
	if r == nil {
		return n, nil
	}
	var err error
	if n.kept, err = checkpoint.Create(room); err != nil {
		return nil, err
	}
	if err := n.note(); err != nil {
		n.Close()
		return nil, err
	}
	r.Keep(remains.Numbers, n.kept.FD())
	return n, nil
}

// goOn reads what was left.
func (n *Numbers) goOn(fd int) error {
	kept, state, err := checkpoint.Open(fd)
	if err != nil {
		handover.CloseFiles([]int{fd})
		return fmt.Errorf("%w: %w", ErrLeft, err)
	}
	if err := n.parse(state); err != nil || kept.Room() < room {
		_ = kept.Close()
		return errors.Join(ErrLeft, err)
	}
	n.kept = kept
	return nil
}

// Close ends their use. They stay kept.
func (n *Numbers) Close() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kept != nil {
		_ = n.kept.Close()
		n.kept = nil
	}
}

// Set gives numbers to these files, which are the memory from now on. Those of other files are used
// up. After an error nothing has changed.
func (n *Numbers) Set(fds []int) error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	of, next := n.of, n.next
	n.of = map[file]uint32{}
	err := n.add(fds, of)
	if err == nil {
		err = n.note()
	}
	if err != nil {
		n.of, n.next = of, next
		return fmt.Errorf("number the guest's memory: %w", err)
	}
	return nil
}

// add gives files the numbers that they had, or new ones.
func (n *Numbers) add(fds []int, had map[file]uint32) error {
	for _, fd := range fds {
		f, err := identify(fd)
		if err != nil {
			return err
		}
		if _, is := n.of[f]; is {
			continue
		}
		number, is := had[f]
		if !is {
			if n.next == n.end || len(n.of) == mostFiles {
				return ErrFull
			}
			number = n.next
			n.next++
		}
		n.of[f] = number
	}
	return nil
}

// Stands says whether a number stands for a file, however it is opened. It is asked at each mapping
// that a worker makes, and allocates nothing.
func (n *Numbers) Stands(number uint32) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, its := range n.of {
		if number == its || number == n.ToRead(its) {
			return true
		}
	}
	return false
}

// All are the numbers that stand for files.
func (n *Numbers) All() (all []uint32) {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, number := range n.of {
		all = append(all, number, n.ToRead(number))
	}
	return all
}

// ToRead is the number that stands for the same file, opened to be read only.
func (n *Numbers) ToRead(number uint32) uint32 { return number + n.end - n.first }

// Of is the number of a file.
func (n *Numbers) Of(fd int) (number uint32, is bool) {
	if n == nil {
		return 0, false
	}
	f, err := identify(fd)
	if err != nil {
		return 0, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	number, is = n.of[f]
	return number, is
}

func identify(fd int) (file, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return file{}, fmt.Errorf("stat: %w", err)
	}
	return file{st.Dev, st.Ino}, nil
}

// note writes all down.
func (n *Numbers) note() error {
	if n.kept == nil {
		return nil
	}
	b := make([]byte, 0, headBytes+len(n.of)*fileBytes)
	for _, v := range []uint32{version, n.next, uint32(len(n.of))} {
		b = little.AppendUint32(b, v)
	}
	for f, number := range n.of {
		b = little.AppendUint64(little.AppendUint64(b, f.device), f.inode)
		b = little.AppendUint32(b, number)
	}
	return n.kept.Write(b)
}

// parse is the inverse, for any bytes.
func (n *Numbers) parse(b []byte) error {
	if len(b) < headBytes || little.Uint32(b) != version {
		return fmt.Errorf("not of version %d", version)
	}
	next, count := little.Uint32(b[4:]), little.Uint32(b[8:])
	b = b[headBytes:]
	if next < n.first || next > n.end || count > mostFiles || len(b) != int(count)*fileBytes {
		return fmt.Errorf("%d files in %d bytes, before number %d", count, len(b), next)
	}
	of, seen := map[file]uint32{}, map[uint32]bool{}
	for ; len(b) > 0; b = b[fileBytes:] {
		f, number := file{little.Uint64(b), little.Uint64(b[8:])}, little.Uint32(b[16:])
		if _, twice := of[f]; twice || seen[number] || number < n.first || number >= next {
			return fmt.Errorf("number %d isn't one file's", number)
		}
		of[f], seen[number] = number, true
	}
	n.of, n.next = of, next
	return nil
}
