// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/cmd/paracuda/process"
)

// versions says which version of this program a keeper's next device process is: the one that has
// served last, unless another one is asked for. Files are held open, since an upgrade may put
// another version at their path.
type versions struct {
	path string // at which an upgrade puts another version

	mu     sync.Mutex
	asked  bool  // the one at path is to be next; guarded by mu, as is what follows
	last   *held // has served last; nil: this program
	trying *held // hasn't served yet; nil: none is tried
}

// pathOf is this program's path, at which an upgrade may put another program.
func pathOf() string {
	path, err := os.Executable()
	if err != nil {
		return process.ThisProgram
	}
	return path
}

// renew makes the next device process the program that lies at path by then.
func (v *versions) renew() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = true
}

// serves is told that the device process serves.
func (v *versions) serves() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.trying != nil {
		v.last.close()
		v.last, v.trying = v.trying, nil
	}
}

// next is the file that the next device process executes.
func (v *versions) next(log *logrus.Entry) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.asked:
		v.asked = false
		v.trying.close()
		var err error
		if v.trying, err = hold(v.path); err == nil {
			return v.trying.file()
		}
		log.WithError(err).Warnf("the program at %s can't go on: the version before it does",
			v.path)
	case v.trying != nil:
		log.Warnf("the program at %s didn't go on: the version before it does", v.path)
		v.trying.close()
		v.trying = nil
	}
	if v.last == nil {
		return process.Self()
	}
	return v.last.file()
}

// close lets go of all files.
func (v *versions) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last.close()
	v.trying.close()
	v.last, v.trying = nil, nil
}

// held is a program whose file is open. A child has a process's descriptors until it executes.
type held struct{ fd int }

// firstHeld is above the descriptors that a child is given.
const firstHeld = 64

func hold(path string) (*held, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	above, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstHeld)
	if err != nil {
		return nil, err
	}
	return &held{above}, nil
}

// file is a path by which a child can execute the program.
func (h *held) file() string { return fmt.Sprintf("/proc/self/fd/%d", h.fd) }

func (h *held) close() {
	if h != nil {
		_ = unix.Close(h.fd)
	}
}
