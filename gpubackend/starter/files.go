// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/proclimit"
)

// Workers on the software GPU can't make files in memory by themselves. This process makes them,
// and keeps a descriptor of each, so that it sees how much memory they have: also of those that
// nobody maps, or that are on their way through a socket, where nobody finds them.

// watchedFiles are files that were made for children.
type watchedFiles struct {
	mu   sync.Mutex
	all  []watched
	most int // so many; 0: half of what this process may have open
}

// watched is a file that some process other than this one has, or had at the last look.
type watched struct {
	fd  int
	pid int // of the child for which it was made; 0: that has ended
}

var (
	errFiles    = errors.New("there are as many files for children as there may be")
	errStranger = errors.New("a file is made only for a child")
)

// make makes a file for a child, and returns a descriptor of it for others. It is opened once more
// for these, to be written: by that the kernel tells whether others have it still. The descriptor
// by which a file in memory is made isn't among those that the kernel counts.
func (w *watchedFiles) make(pid int, f memfd.Form) (theirs int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.most == 0 {
		w.most = proclimit.Files() / 2
	}
	w.sweep(max(0, len(w.all)-recent))
	if len(w.all) >= w.most {
		if w.sweep(0); len(w.all) >= w.most {
			return -1, errFiles
		}
	}
	fd, err := memfd.Make(f)
	if err != nil {
		return -1, err
	}
	theirs, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("open a file again: %w", err)
	}
	w.all = append(w.all, watched{fd, pid})
	return theirs, nil
}

// recent is how many files are looked at whenever another one is made: a program that frees memory
// and allocates some again, in a loop, has no more of the host's memory for that.
const recent = 8

// sweep closes those, from the one with that index on, that nobody else has any more: their memory
// is free then. Callers hold mu.
func (w *watchedFiles) sweep(from int) {
	kept := w.all[:from]
	for _, f := range w.all[from:] {
		if othersHave(f.fd) {
			kept = append(kept, f)
		} else {
			unix.Close(f.fd)
		}
	}
	w.all = kept
}

// othersHave says whether a process has a descriptor of a file, or a mapping, or sends one: such a
// file can't be leased, since it is open to be written.
func othersHave(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	return errors.Is(err, unix.EAGAIN)
}

// weigh returns how much memory the files have, by the children for which they were made.
func (w *watchedFiles) weigh() map[int]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep(0)
	of := map[int]uint64{}
	for _, f := range w.all {
		var st unix.Stat_t
		if unix.Fstat(f.fd, &st) == nil {
			of[f.pid] += uint64(st.Blocks) * 512
		}
	}
	return of
}

// ended is told that a child has ended. Others may have its files.
func (w *watchedFiles) ended(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.all {
		if w.all[i].pid == pid {
			w.all[i].pid = 0
		}
	}
	w.sweep(0)
}

// close closes all.
func (w *watchedFiles) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.all {
		unix.Close(f.fd)
	}
	w.all = nil
}

// makeFile makes a file for a child, which the message names with what the file is.
func (s *server) makeFile(m *message) {
	s.mu.Lock()
	isChild := false
	for _, c := range s.children {
		isChild = isChild || c.pid == int(m.pid)
	}
	s.mu.Unlock()
	f, err := memfd.FormOf(uint64(m.used[0].gpu), m.used[0].bytes)
	if err == nil && !isChild {
		err = errStranger
	}
	theirs := -1
	if err == nil {
		theirs, err = s.files.make(int(m.pid), f)
	}
	if err != nil {
		s.refuse(m, err)
		return
	}
	_ = send(s.conn, &message{kind: made, id: m.id}, theirs)
	unix.Close(theirs)
}

// Make makes a file in memory for a child.
func (c *Client) Make(pid int, f memfd.Form) (*os.File, error) {
	if !c.knows {
		return nil, errCant
	}
	a, err := c.ask(&message{kind: makes, pid: uint32(pid),
		used: []usedBy{{gpu: uint32(f.Word()), bytes: f.Bytes}}}, -1)
	if err == nil && a.file == nil {
		a.drop()
		err = errMessage
	}
	if err != nil {
		return nil, fmt.Errorf("make a file for a worker: %w", err)
	}
	return a.file, nil
}
