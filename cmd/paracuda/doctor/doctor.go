// SPDX-License-Identifier: Apache-2.0

// Package doctor looks at a host for what keeps its VMs from a GPU, and says what fixes it.
//
// A check is a name and a function; what it finds is one Finding or several, each good, a warning
// or a problem, with the command that fixes it. Checks of one subject are in one file. They change
// nothing, and wait for nothing longer than patience.
//
// # Who owns what
//
// A Host is where checks look: this machine, or what a test puts in its place. What only the
// program itself knows (how a VM's file is read, how a GPU computes) is given with Subject.
//
// # Who may lie
//
// Whoever listens on a socket in the VMs' folder, and whoever wrote a file there. What these say is
// bounded where it is read, and printed without what would command a terminal.
//
// # Files
//
//	doctor.go     findings and checks; print.go prints them
//	machine.go    this machine; files.go reads its files
//	kernel.go limits.go nvidia.go qemu.go services.go   the checks, by subject
package doctor

import (
	"context"
	"time"
)

// patience is how long one check may wait for a program or for a socket.
const patience = 10 * time.Second

// Level says how bad a finding is.
type Level string

// The levels. Only a problem makes the doctor fail.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Problem Level = "problem"
)

// Finding is what a check found.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	Fix   string `json:"fix,omitempty"` // the command that fixes it, if any can
}

// Check is one thing to look at. Look needn't fill in the check's name.
type Check struct {
	Name string
	Look func(context.Context) []Finding
}

func good(found string) Finding { return Finding{Level: OK, Found: found} }

func warn(found, fix string) Finding { return Finding{Level: Warning, Found: found, Fix: fix} }

func bad(found, fix string) Finding { return Finding{Level: Problem, Found: found, Fix: fix} }

// one makes a check of a function that finds one thing.
func one(name string, look func(context.Context) Finding) Check {
	return Check{name, func(ctx context.Context) []Finding { return []Finding{look(ctx)} }}
}

// Run runs checks in order, and calls tell with each finding at once.
func Run(ctx context.Context, checks []Check, tell func(Finding)) []Finding {
	var all []Finding
	for _, c := range checks {
		for _, f := range c.Look(ctx) {
			f.Check = c.Name
			tell(f)
			all = append(all, f)
		}
	}
	return all
}

// Count says how many findings are of a level.
func Count(all []Finding, level Level) (n int) {
	for i := range all {
		if all[i].Level == level {
			n++
		}
	}
	return n
}

// Host is where checks look.
type Host struct {
	Root          string // stands before the path of every file; "" is this machine
	Open          func(path string) error
	Limit         func(resource int) (uint64, error) // of this process (getrlimit)
	Memfd         func() error                       // makes memory that processes can share
	UserNamespace func() error                       // starts a process in a new user namespace
	Landlock      func() (int, error)                // its version in the kernel
	Filter        func() error                       // says whether system calls can be filtered
}

// Subject is what the program is, and what only it can do.
type Subject struct {
	Version string
	QEMU    string                                // a program's name or path
	Arbiter string                                // its socket; "": the usual ones
	VM      func(file string) error               // reads a VM's configuration
	Compute func(context.Context) (string, error) // computes on the GPU, and names it
}

// Checks are all checks of a host. The computation is the last: it needs most of the others.
func Checks(h *Host, s *Subject) []Check {
	return []Check{
		one("version", func(context.Context) Finding { return good("paracuda " + s.Version) }),
		{"processes", h.processes},
		{"qemu", func(ctx context.Context) []Finding { return checkQEMU(ctx, s.QEMU) }},
		one("kvm", h.kvm),
		one("shared-memory", h.sharedMemory),
		one("driver", h.driver),
		one("library", h.library),
		{"nodes", h.nodes},
		one("hmm", h.hmm),
		one("mappings", h.mappings),
		one("descriptors", h.descriptors),
		one("processes-limit", h.processesLimit),
		one("user-namespaces", h.userNamespaces),
		one("landlock", h.landlock),
		one("seccomp", h.seccomp),
		one("arbiter", func(context.Context) Finding { return checkArbiter(s.Arbiter) }),
		one("arbiter-config", h.arbiterConfig),
		{"vm-config", func(context.Context) []Finding { return h.vmConfigs(s.VM) }},
		{"vm-socket", h.listeners},
		{"vm-control", func(context.Context) []Finding { return h.vmSockets() }},
		one("computation", func(ctx context.Context) Finding { return compute(ctx, s.Compute) }),
	}
}
