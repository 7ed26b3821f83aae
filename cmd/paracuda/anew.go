// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// Whoever starts a keeper, a device process or an arbiter may have secrets in the environment, and
// descriptors that were left open. A process can't forget its environment, which the kernel shows:
// it executes this program anew.

// ofDevices are the variables that device process and arbiter read, besides those that workers get:
// how the log is written, and where a user's own arbiter is.
var ofDevices = []string{"JOURNAL_STREAM", "TZ", "XDG_RUNTIME_DIR"}

// ofSystemd are those by which systemd passes sockets on, and is told that the device is ready.
var ofSystemd = []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET"}

// The first thread stays the main goroutine's until it is known whether this program is executed
// anew. On another thread that would undo a parent's PR_SET_PDEATHSIG, by which `paracuda run` and
// the keeper end a device process with themselves.
func init() { runtime.LockOSThread() }

// isProgram says that this process began with main. A test that calls a command mustn't be executed
// anew.
var isProgram bool

// anew lets a keeper or device process go on without what it has inherited and doesn't need.
func (o *deviceOptions) anew() error {
	defer runtime.UnlockOSThread()
	if !o.sandbox {
		return nil
	}
	uses := process.MostProcessors
	if o.isKeeper() {
		uses = process.WaitingProcessors
	}
	return beginAnew(slices.Concat(ofSystemd, o.passEnv), o.known(), uses)
}

// anew does the same for an arbiter.
func (o *arbiterOptions) anew() error {
	defer runtime.UnlockOSThread()
	if !o.sandbox {
		return nil
	}
	return beginAnew(ofSystemd, nil, process.MostProcessors)
}

// beginAnew executes this program once more, if this process has inherited variables that nobody
// reads or names, or descriptors that aren't known, or has more processors than it uses. The next
// one has none of them. It keeps its number, arguments and parent.
func beginAnew(named []string, known []int, processors int) error {
	if !isProgram {
		return nil
	}
	clean := process.WithProcessors(
		sandbox.Environment(os.Environ(), slices.Concat(ofDevices, named)), processors)
	inherited, err := sandbox.Inherited(firstInherited)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(inherited), func(fd int) bool {
		return !slices.Contains(known, fd)
	})
	if slices.Equal(clean, os.Environ()) && len(kept) == len(inherited) {
		return nil
	}
	if err := sandbox.CloseInherited(firstInherited); err != nil {
		return err
	}
	for _, fd := range kept {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("pass descriptor %d on: %w", fd, err)
		}
	}
	if err := syscall.Exec(process.Self(), os.Args, clean); err != nil {
		return fmt.Errorf("begin without what was inherited: execute %s: %w", process.Self(), err)
	}
	return nil
}

// known are the descriptors that this process was given on purpose. Some may not be open.
func (o *deviceOptions) known() (fds []int) {
	for _, fd := range []int{o.fd, o.kept, o.keptControl} {
		if fd >= firstInherited {
			fds = append(fds, fd)
		}
	}
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return fds
	}
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	for i := range max(0, min(n, math.MaxUint16)) {
		fds = append(fds, firstInherited+i)
	}
	return fds
}
