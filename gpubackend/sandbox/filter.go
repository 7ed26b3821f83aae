// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/proclimit"
)

//go:generate go run ./callsgen

// Role is what a process does, and so which system calls it needs.
type Role uint8

// The roles that have a filter.
const (
	SoftWorker     Role = 1 << iota // a worker on the software GPU
	SoftMover                       // a mover on the software GPU
	CUDAWorker                      // a worker with NVIDIA's driver
	CUDAMover                       // a mover with NVIDIA's driver
	Device                          // a device process, whatever the GPU
	Keeper                          // the process that starts device processes
	StarterProcess                  // the process that starts workers and movers
	Arbiter                         // the process that shares the host's GPUs among VMs
)

// SetListenerFlags is SECCOMP_IOCTL_NOTIF_SET_FLAGS (Linux 6.6), which x/sys hasn't got.
const SetListenerFlags = 0x40082104

// A worker's descriptors from AskedFrom on stand for files of its guest's memory: it may only map
// them, and only as the one who has the listener decides. There are AskedNumbers of them, and as
// many for the same files where they are opened to be read only.
const (
	AskedFrom    = proclimit.Own
	AskedNumbers = 1 << 10
	lastAsked    = AskedFrom + 2*AskedNumbers - 1
)

// ErrRole says that there is no list of calls for a role.
var ErrRole = errors.New("no list of system calls for this role")

// Filter makes the kernel kill this process when one of its threads, now or later, makes a system
// call that its role doesn't need. It can't be undone.
func Filter(role Role) error {
	program, err := prepare(role, anyControl)
	if err != nil {
		return err
	}
	return filter(program)
}

// FilterAsking is Filter for a worker. It receives files only by control, its connection to the
// device process, which stays open from now on: to close it ends the process. Who has the listener
// that it returns decides on mappings of the guest's memory (AskedFrom). missing says why there is
// no listener, which is -1 then: nobody can allow such a mapping.
func FilterAsking(role Role, control int) (listener int, missing, err error) {
	program, err := prepare(role, control)
	if err != nil {
		return -1, nil, err
	}
	if missing = errors.Join(canBeGiven(), MakeRoom(control)); missing == nil {
		if err := unix.Close(lastAsked); err != nil {
			return -1, nil, fmt.Errorf("filter system calls: %w", err)
		}
		const all = unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
		value, err := setFilter(all|unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, program)
		if err == nil {
			return int(value), nil, nil
		}
		missing = fmt.Errorf("have another process decide on mappings: %w", err)
	}
	return -1, missing, filter(unasked(program))
}

// canBeGiven says why nobody could give files to a process whose call they decide on.
func canBeGiven() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("read the kernel's version: %w", err)
	}
	return givesFiles(unix.ByteSliceToString(name.Release[:]))
}

// givesFiles says so of a kernel with that version: 5.9 is the first that can.
func givesFiles(release string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("read the kernel's version, %q: %w", release, err)
	}
	if major < 5 || major == 5 && minor < 9 {
		return fmt.Errorf("the kernel is %s, and 5.9 or later is needed", release)
	}
	return nil
}

// unasked is a program that allows what somebody else would decide on, for where nobody can: a
// worker needs files in memory.
func unasked(program []unix.SockFilter) []unix.SockFilter {
	program = slices.Clone(program)
	for i := range program {
		p := &program[i]
		if p.Code == unix.BPF_RET|unix.BPF_K && p.K == unix.SECCOMP_RET_USER_NOTIF {
			p.K = unix.SECCOMP_RET_ALLOW
		}
	}
	return program
}

// MakeRoom has the kernel make this process's table of descriptors large enough for those from
// AskedFrom on, or says why it can't have them. open is any descriptor. Processes that it starts
// then have such a table from their beginning: for one with several threads the kernel takes up to
// 20 ms.
func MakeRoom(open int) error {
	if n := proclimit.Files(); n <= lastAsked {
		return fmt.Errorf("it may have %d files (RLIMIT_NOFILE), and needs %d", n, lastAsked+1)
	}
	if err := unix.Dup3(open, lastAsked, unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("make room for descriptors: %w", err)
	}
	return nil
}

// prepare is a role's program for this process, which has done what it can't do under it.
func prepare(role Role, control int) ([]unix.SockFilter, error) {
	program, ok := programs[role]
	if !ok {
		return nil, fmt.Errorf("filter system calls: %w", ErrRole)
	}
	if err := prime(); err != nil {
		return nil, err
	}
	if role == Device {
		keepProcs()
	}
	return forThis(program, os.Getpid(), control), nil
}

// filter filters the calls of all threads.
func filter(program []unix.SockFilter) error {
	thread, err := setFilter(unix.SECCOMP_FILTER_FLAG_TSYNC, program)
	if err == nil && thread != 0 {
		err = fmt.Errorf("thread %d has a filter of its own", thread)
	}
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}

// prime makes the Go runtime do now what it does once and can't do later: make what it polls files
// with.
func prime() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return errors.Join(r.Close(), w.Close())
}

// keepProcs has the Go runtime stay with the processors that it has found: a device process has
// little to compute, and needs two system calls less. Else the runtime counts processors now and
// then (sched_getaffinity), and reads its control group's bound (pread64).
func keepProcs() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) }

// forThis adapts a generated program to this process.
func forThis(program []unix.SockFilter, pid, control int) []unix.SockFilter {
	program = slices.Clone(program)
	for i := range program {
		switch program[i].K {
		case anyPID:
			program[i].K = uint32(pid)
		case anyControl:
			program[i].K = uint32(control)
		}
	}
	return program
}
