// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
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

// ErrRole says that there is no list of calls for a role.
var ErrRole = errors.New("no list of system calls for this role")

// Filter makes the kernel kill this process when one of its threads, now or later, makes a system
// call that its role doesn't need. It can't be undone.
func Filter(role Role) error {
	program, ok := programs[role]
	if !ok {
		return fmt.Errorf("filter system calls: %w", ErrRole)
	}
	if err := prime(); err != nil {
		return err
	}
	if role == Device {
		keepProcs()
	}
	err := setFilter(unix.SECCOMP_FILTER_FLAG_TSYNC, forThis(program, os.Getpid()))
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
// little to compute, and needs a system call less.
func keepProcs() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) }

// forThis adapts a generated program to this process.
func forThis(program []unix.SockFilter, pid int) []unix.SockFilter {
	program = slices.Clone(program)
	for i := range program {
		if program[i].K == anyPID {
			program[i].K = uint32(pid)
		}
	}
	return program
}
