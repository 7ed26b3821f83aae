// SPDX-License-Identifier: Apache-2.0

package numbering

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
)

// Opened are files of the guest's memory that are opened to be read only. The next process has
// them, too, since it may be unable to open them. One goroutine at a time uses it.
type Opened struct {
	remains *remains.Remains
	reopen  func(fd int) (*os.File, error)
	has     map[file]*os.File
	kept    int // places that have one
}

// NewOpened takes those that the previous process has left. reopen opens others.
func (n *Numbers) NewOpened(reopen func(fd int) (*os.File, error)) *Opened {
	o := &Opened{remains: n.remains, reopen: reopen, has: map[file]*os.File{}}
	for i := range remains.MostReading {
		fd, left := n.remains.Take(remains.Reading(i))
		if !left {
			continue
		}
		o.kept = i + 1
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		f, e := identify(fd)
		if err != nil || e != nil || flags&unix.O_ACCMODE != unix.O_RDONLY || o.has[f] != nil {
			handover.CloseFiles([]int{fd})
			continue
		}
		o.has[f] = os.NewFile(uintptr(fd), "memory")
	}
	return o
}

// All returns these files, opened to be read only. After an error there are none.
func (o *Opened) All(fds []int) ([]*os.File, error) {
	var list []*os.File
	for _, fd := range fds {
		f, err := identify(fd)
		if err != nil {
			return nil, fmt.Errorf("open the guest's memory to be read only: %w", err)
		}
		if o.has[f] == nil {
			opened, err := o.reopen(fd)
			if err != nil {
				return nil, err
			}
			o.has[f] = opened
		}
		list = append(list, o.has[f])
	}
	return list, nil
}

// Keep says that these are in use from now on, and no others.
func (o *Opened) Keep(list []*os.File) {
	for f, opened := range o.has {
		if !slices.Contains(list, opened) {
			_ = opened.Close()
			delete(o.has, f)
		}
	}
	n := min(len(list), remains.MostReading)
	for i, opened := range list[:n] {
		o.remains.Keep(remains.Reading(i), int(opened.Fd()))
	}
	for i := n; i < o.kept; i++ {
		o.remains.Drop(remains.Reading(i))
	}
	o.kept = n
}
