// SPDX-License-Identifier: Apache-2.0

package main

import (
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/seccomp"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// Sets of roles that need the same calls.
const (
	workers  = sandbox.SoftWorker | sandbox.CUDAWorker
	onCUDA   = sandbox.CUDAWorker | sandbox.CUDAMover
	onSoft   = sandbox.SoftWorker | sandbox.SoftMover
	children = onSoft | onCUDA
	servers  = sandbox.Device | sandbox.Arbiter
	anyRole  = children | servers // but for parents
)

// call is a system call that a role may make.
type call struct {
	number uintptr
	name   string
	roles  sandbox.Role
	why    string
	rule   seccomp.SyscallRule // of its arguments; nil: any
	own    bool                // the first argument is this process
	answer unix.Errno          // if not 0, the call isn't made and gets this answer
	asked  bool                // who has the filter's listener decides, if the call isn't allowed
	// file is which argument, from 1, is a descriptor by which the call reaches what a file has, or
	// makes another descriptor of it; 0: none. Workers may only name their own (sandbox.AskedFrom).
	file int
}

// threadFlags are the flags with which the Go runtime and glibc make threads. No others are
// allowed.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND |
	unix.CLONE_THREAD

var (
	// noCode refuses executable memory.
	noCode = seccomp.PerArg{
		seccomp.AnyValue{}, seccomp.AnyValue{},
		seccomp.BitsAllowlist(unix.PROT_READ | unix.PROT_WRITE),
	}
	// ownPages refuses what would be memory of the process's that no figure of the kernel's for it
	// has: shared memory without a file, once its pages aren't mapped, and huge pages. Random
	// numbers come by memory that the kernel may drop (the Go runtime, vgetrandom).
	ownPages = seccomp.Or{
		seccomp.PerArg{
			seccomp.AnyValue{}, seccomp.AnyValue{}, seccomp.AnyValue{},
			seccomp.MaskedEqual(unix.MAP_ANONYMOUS|unix.MAP_HUGETLB|unix.MAP_TYPE,
				unix.MAP_ANONYMOUS|unix.MAP_DROPPABLE),
		},
		seccomp.PerArg{
			seccomp.AnyValue{}, seccomp.AnyValue{}, seccomp.AnyValue{},
			seccomp.MaskedEqual(unix.MAP_ANONYMOUS|unix.MAP_HUGETLB, 0),
		},
		seccomp.PerArg{
			seccomp.AnyValue{}, seccomp.AnyValue{}, seccomp.AnyValue{},
			seccomp.MaskedEqual(unix.MAP_ANONYMOUS|unix.MAP_HUGETLB|unix.MAP_TYPE,
				unix.MAP_ANONYMOUS|unix.MAP_PRIVATE),
		},
	}
	// holes takes memory from a file, and gives it none.
	holes = seccomp.PerArg{
		seccomp.AnyValue{},
		seccomp.EqualTo(unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE),
	}
	threads   = seccomp.PerArg{seccomp.MaskedEqual(threadFlags, threadFlags)}
	local     = seccomp.PerArg{seccomp.EqualTo(unix.AF_UNIX)}
	sockets   = seccomp.PerArg{seccomp.AnyValue{}, seccomp.EqualTo(unix.SOL_SOCKET)}
	decisions = seccomp.Or{
		seccomp.PerArg{seccomp.AnyValue{}, seccomp.EqualTo(unix.SECCOMP_IOCTL_NOTIF_RECV)},
		seccomp.PerArg{seccomp.AnyValue{}, seccomp.EqualTo(unix.SECCOMP_IOCTL_NOTIF_SEND)},
		seccomp.PerArg{seccomp.AnyValue{}, seccomp.EqualTo(unix.SECCOMP_IOCTL_NOTIF_ADDFD)},
		seccomp.PerArg{seccomp.AnyValue{}, seccomp.EqualTo(sandbox.SetListenerFlags)},
	}
	// lowCopies refuses copies of descriptors at the numbers of the guest's memory.
	lowCopies = seccomp.And{
		seccomp.PerArg{seccomp.AnyValue{}, seccomp.LessThan(1 << 16)},
		seccomp.Or{
			seccomp.PerArg{
				seccomp.AnyValue{}, seccomp.AnyValue{}, seccomp.LessThan(sandbox.AskedFrom),
			},
			seccomp.And{
				seccomp.PerArg{seccomp.AnyValue{}, seccomp.NotEqual(unix.F_DUPFD)},
				seccomp.PerArg{seccomp.AnyValue{}, seccomp.NotEqual(unix.F_DUPFD_CLOEXEC)},
			},
		},
	}
)

// The kernel ignores the upper half of a descriptor.
const lowerHalf = 1<<32 - 1

var (
	// byControl matches a worker's connection to the device process, by which alone it may receive
	// others' files.
	byControl = seccomp.PerArg{seccomp.MaskedEqual(lowerHalf, anyControl)}
	// ownButControl matches the others of its own, or -1. That number always is the connection:
	// none may take its place.
	ownButControl = seccomp.Or{
		seccomp.And{
			seccomp.PerArg{seccomp.MaskedEqual(^uintptr(sandbox.AskedFrom-1), 0)},
			seccomp.PerArg{seccomp.NotEqual(anyControl)},
		},
		seccomp.PerArg{seccomp.MaskedEqual(lowerHalf, lowerHalf)},
	}
)

// ownFile matches calls whose argument n, from 1, is a descriptor of the process's own, or -1.
func ownFile(n int) seccomp.SyscallRule {
	var own, no seccomp.PerArg
	for i := range n {
		own[i], no[i] = seccomp.AnyValue{}, seccomp.AnyValue{}
	}
	own[n-1] = seccomp.MaskedEqual(lowerHalf&^(sandbox.AskedFrom-1), 0)
	no[n-1] = seccomp.MaskedEqual(lowerHalf, lowerHalf)
	return seccomp.Or{own, no}
}

// calls is the one description of what roles may ask the kernel for.
var calls = []call{
	// Threads and their waiting.
	{number: unix.SYS_FUTEX, name: "futex", roles: anyRole, why: "threads wait for one another"},
	{number: unix.SYS_CLONE, name: "clone", roles: anyRole, why: "threads are made", rule: threads},
	{
		number: unix.SYS_CLONE3, name: "clone3", roles: anyRole, answer: unix.ENOSYS,
		why: "glibc then uses clone",
	},
	{number: unix.SYS_SET_ROBUST_LIST, name: "set_robust_list", roles: anyRole,
		why: "glibc's threads"},
	{number: unix.SYS_RSEQ, name: "rseq", roles: anyRole, why: "glibc's threads"},
	{number: unix.SYS_EXIT, name: "exit", roles: anyRole, why: "threads end"},
	{number: unix.SYS_EXIT_GROUP, name: "exit_group", roles: anyRole, why: "the process ends"},
	{number: unix.SYS_SCHED_YIELD, name: "sched_yield", roles: anyRole, why: "the Go runtime"},
	{
		number: unix.SYS_SCHED_GETAFFINITY, name: "sched_getaffinity",
		roles: children | sandbox.Arbiter, why: "the Go runtime counts processors",
	},
	{
		number: unix.SYS_SCHED_GETAFFINITY, name: "sched_getaffinity", roles: sandbox.Device,
		answer: unix.ENOSYS, why: "glibc asks about each thread, and goes on",
	},
	{number: unix.SYS_GETPID, name: "getpid", roles: anyRole, why: "signals to its own threads"},
	{number: unix.SYS_GETTID, name: "gettid", roles: anyRole, why: "signals to its own threads"},

	// Time.
	{number: unix.SYS_NANOSLEEP, name: "nanosleep", roles: anyRole, why: "the Go runtime"},
	{
		number: unix.SYS_CLOCK_GETTIME, name: "clock_gettime", roles: anyRole,
		why: "the time, where the vDSO can't tell it",
	},
	{
		number: unix.SYS_RESTART_SYSCALL, name: "restart_syscall", roles: anyRole,
		why: "waits that go on after SIGCONT",
	},

	// Signals: the Go runtime interrupts its threads with them, and the guard of memory that may
	// be cut short is one.
	{number: unix.SYS_RT_SIGACTION, name: "rt_sigaction", roles: anyRole, why: "the Go runtime"},
	{number: unix.SYS_RT_SIGPROCMASK, name: "rt_sigprocmask", roles: anyRole,
		why: "the Go runtime"},
	{number: unix.SYS_RT_SIGRETURN, name: "rt_sigreturn", roles: anyRole,
		why: "signal handlers end"},
	{number: unix.SYS_SIGALTSTACK, name: "sigaltstack", roles: anyRole, why: "the Go runtime"},
	{
		number: unix.SYS_TGKILL, name: "tgkill", roles: anyRole,
		why: "the Go runtime interrupts its threads", own: true,
	},

	// Memory.
	{
		number: unix.SYS_MMAP, name: "mmap", roles: anyRole &^ sandbox.SoftWorker, why: "memory",
		rule: noCode, file: 5,
	},
	{
		number: unix.SYS_MMAP, name: "mmap", roles: sandbox.SoftWorker, file: 5,
		rule: seccomp.And{noCode, ownPages},
		why:  "the same, but for huge pages, and shared ones that aren't a file's",
	},
	{
		number: unix.SYS_MMAP, name: "mmap", roles: workers, asked: true, rule: noCode,
		why: "the guest's memory: the device process decides on each call",
	},
	{number: unix.SYS_MPROTECT, name: "mprotect", roles: anyRole, why: "memory", rule: noCode},
	{number: unix.SYS_MUNMAP, name: "munmap", roles: anyRole, why: "memory"},
	{number: unix.SYS_MADVISE, name: "madvise", roles: anyRole, why: "memory is given back"},
	{number: unix.SYS_BRK, name: "brk", roles: anyRole, why: "glibc's malloc"},
	{
		number: unix.SYS_PRCTL, name: "prctl", roles: children | sandbox.Arbiter,
		why: "names of memory and threads, and their timer slack",
		rule: seccomp.Or{
			seccomp.PerArg{seccomp.EqualTo(unix.PR_SET_VMA)},
			seccomp.PerArg{seccomp.EqualTo(unix.PR_SET_NAME)},
			seccomp.PerArg{seccomp.EqualTo(unix.PR_SET_TIMERSLACK)},
		},
	},
	{
		number: unix.SYS_PRCTL, name: "prctl", roles: sandbox.Device, answer: unix.EACCES,
		why: "the Go runtime tries to name memory, and goes on",
	},
	{number: unix.SYS_MEMFD_CREATE, name: "memfd_create", roles: anyRole &^ sandbox.SoftWorker,
		why: "shared memory"},
	{
		number: unix.SYS_MEMFD_CREATE, name: "memfd_create", roles: sandbox.SoftWorker, asked: true,
		why: "shared memory: the device process has it made",
	},
	{number: unix.SYS_FTRUNCATE, name: "ftruncate", roles: anyRole &^ sandbox.SoftWorker,
		why: "shared memory", file: 1},
	{
		number: unix.SYS_FTRUNCATE, name: "ftruncate", roles: sandbox.SoftWorker, asked: true,
		why: "is refused, where the device process is asked",
	},
	{
		number: unix.SYS_FALLOCATE, name: "fallocate", roles: sandbox.SoftWorker, rule: holes,
		why: "the GPU's memory is given back", file: 1,
	},
	{number: unix.SYS_GETRANDOM, name: "getrandom",
		roles: workers | sandbox.CUDAMover | sandbox.Arbiter,
		why:   "the Go runtime, names"},

	// Files that the process has open.
	{number: unix.SYS_READ, name: "read", roles: anyRole, why: "events, sockets", file: 1},
	{number: unix.SYS_WRITE, name: "write", roles: anyRole, why: "events, sockets, the log",
		file: 1},
	{number: unix.SYS_PREAD64, name: "pread64", roles: anyRole &^ sandbox.Device,
		why: "how much memory and how many processors it has", file: 1},
	{number: unix.SYS_CLOSE, name: "close", roles: anyRole &^ workers, why: "files"},
	{
		number: unix.SYS_CLOSE, name: "close", roles: workers, rule: ownButControl,
		why: "the same, but for the connection to the device process",
	},
	{number: unix.SYS_FSTAT, name: "fstat", roles: anyRole, why: "sizes of memory that arrives"},
	{number: unix.SYS_FSTATFS, name: "fstatfs", roles: anyRole, why: "whether memory is sealed"},
	{
		number: unix.SYS_FCNTL, name: "fcntl", roles: anyRole &^ workers,
		why: "seals, copies of descriptors, their flags",
	},
	{
		number: unix.SYS_FCNTL, name: "fcntl", roles: workers, rule: lowCopies, file: 1,
		why: "the same, with copies below the guest's memory",
	},
	{
		number: unix.SYS_IOCTL, name: "ioctl", roles: sandbox.Device, rule: decisions,
		why: "decisions on what workers map",
	},
	{number: unix.SYS_PREADV2, name: "preadv2", roles: sandbox.Device,
		why: "events that others may have set to block; files, in place of pread64"},
	{number: unix.SYS_PWRITEV2, name: "pwritev2", roles: sandbox.Device,
		why: "the same; notes for the next device process"},
	{
		number: unix.SYS_UNLINKAT, name: "unlinkat", roles: sandbox.Device, answer: unix.EACCES,
		why: "the Go runtime tries to remove a socket: the starter process does",
	},
	{
		number: unix.SYS_PIDFD_SEND_SIGNAL, name: "pidfd_send_signal", roles: sandbox.Device,
		why:  "workers and mover are killed",
		rule: seccomp.PerArg{seccomp.AnyValue{}, seccomp.EqualTo(unix.SIGKILL)},
	},
	{
		number: unix.SYS_OPENAT, name: "openat", roles: onSoft | sandbox.Device,
		answer: unix.EACCES,
		why:    "the Go runtime tries, and goes on",
	},

	{
		number: unix.SYS_OPENAT, name: "openat", roles: sandbox.Arbiter,
		why: "its configuration is read again; other files by Landlock",
	},
	{
		number: unix.SYS_UNLINKAT, name: "unlinkat", roles: sandbox.Arbiter,
		why: "its socket is removed; other files by Landlock",
	},
	{
		number: unix.SYS_READLINKAT, name: "readlinkat", roles: sandbox.Arbiter,
		why: "whether a VM's memory and bells are of the right kind",
	},

	// Messages and waiting for them.
	{number: unix.SYS_RECVMSG, name: "recvmsg", roles: anyRole &^ workers,
		why: "the device process's messages"},
	{
		number: unix.SYS_RECVMSG, name: "recvmsg", roles: workers, rule: byControl,
		why: "the same, with files, which come by no other way",
	},
	{
		number: unix.SYS_RECVMSG, name: "recvmsg", roles: sandbox.CUDAWorker, answer: unix.EACCES,
		why: "others' messages, which may have files",
	},
	{number: unix.SYS_SENDFILE, name: "sendfile", roles: sandbox.Device,
		why: "answers to QEMU, in a way that outlives the process"},
	{number: unix.SYS_SENDMSG, name: "sendmsg", roles: anyRole, why: "answers, files"},
	{number: unix.SYS_RECVFROM, name: "recvfrom", roles: children, why: "wake-ups"},
	{number: unix.SYS_SENDTO, name: "sendto", roles: children, why: "wake-ups"},
	{number: unix.SYS_SOCKETPAIR, name: "socketpair", roles: anyRole &^ sandbox.SoftWorker,
		why: "wake-ups", rule: local},
	{
		number: unix.SYS_GETSOCKNAME, name: "getsockname", roles: anyRole,
		why: "the Go runtime takes over sockets",
	},
	{
		number: unix.SYS_GETPEERNAME, name: "getpeername", roles: anyRole,
		why: "the Go runtime takes over sockets",
	},
	{number: unix.SYS_SHUTDOWN, name: "shutdown", roles: children | sandbox.Arbiter,
		why: "connections end"},
	{
		number: unix.SYS_GETSOCKOPT, name: "getsockopt", roles: anyRole,
		why:  "who is at the other end",
		rule: sockets,
	},
	{
		number: unix.SYS_SETSOCKOPT, name: "setsockopt", roles: sandbox.Arbiter,
		why: "connections of scrapers",
		rule: seccomp.Or{
			sockets, seccomp.PerArg{seccomp.AnyValue{}, seccomp.EqualTo(unix.IPPROTO_TCP)},
		},
	},
	{number: unix.SYS_ACCEPT4, name: "accept4", roles: servers,
		why: "front ends; device processes, scrapers"},
	{number: unix.SYS_EVENTFD2, name: "eventfd2",
		roles: workers | sandbox.CUDAMover | sandbox.Arbiter, why: "wake-ups"},
	{number: unix.SYS_PPOLL, name: "ppoll", roles: anyRole, why: "waiting for several things"},
	{number: unix.SYS_EPOLL_CTL, name: "epoll_ctl", roles: anyRole, why: "the Go runtime"},
	{number: unix.SYS_EPOLL_PWAIT, name: "epoll_pwait", roles: anyRole, why: "the Go runtime"},

	// What NVIDIA's driver asks for once it is loaded and initialised, for contexts and memory too.
	{
		number: unix.SYS_IOCTL, name: "ioctl", roles: onCUDA, why: "the driver (the lists below)",
		rule: ioctlRule(), file: 1,
	},
	{
		number: unix.SYS_OPENAT, name: "openat", roles: onCUDA,
		why: "the GPU's devices, for each mapping; other files by Landlock",
	},
	{
		number: unix.SYS_SOCKET, name: "socket", roles: sandbox.CUDAWorker, rule: local,
		why: "NVIDIA's driver listens: else cuInit fails",
	},
	{
		number: unix.SYS_SETSOCKOPT, name: "setsockopt", roles: sandbox.CUDAWorker, rule: sockets,
		why: "the same",
	},
	{number: unix.SYS_BIND, name: "bind", roles: sandbox.CUDAWorker, why: "the same"},
	{number: unix.SYS_LISTEN, name: "listen", roles: sandbox.CUDAWorker, why: "the same"},
	{number: unix.SYS_ACCEPT4, name: "accept4", roles: sandbox.CUDAWorker, why: "the same"},
	{number: unix.SYS_CONNECT, name: "connect", roles: sandbox.CUDAWorker, why: "the same"},
	{number: unix.SYS_POLL, name: "poll", roles: onCUDA, why: "the driver's threads wait"},
	{number: unix.SYS_DUP, name: "dup", roles: onCUDA, why: "memory that is shared", file: 1},
	{number: unix.SYS_PIPE2, name: "pipe2", roles: onCUDA, why: "the driver's threads are woken"},
	{number: unix.SYS_MREMAP, name: "mremap", roles: sandbox.CUDAMover, why: "glibc's malloc"},
	{
		number: unix.SYS_MREMAP, name: "mremap", roles: sandbox.CUDAWorker, answer: unix.ENOSYS,
		why: "the same, which goes on without it",
	},
	{
		number: unix.SYS_CLOCK_NANOSLEEP, name: "clock_nanosleep", roles: onCUDA,
		why: "pauses of the driver",
	},
	{number: unix.SYS_LSEEK, name: "lseek", roles: onCUDA, why: "files about the host's state",
		file: 1},
	{number: unix.SYS_STAT, name: "stat", roles: onCUDA, why: "the GPU's devices"},
	{number: unix.SYS_NEWFSTATAT, name: "newfstatat", roles: onCUDA, why: "the GPU's devices"},
	{number: unix.SYS_ACCESS, name: "access", roles: onCUDA, why: "whether modules are loaded"},
	{number: unix.SYS_READLINK, name: "readlink", roles: onCUDA, why: "its own name"},
	{
		number: unix.SYS_READLINKAT, name: "readlinkat", roles: onCUDA,
		why: "a GPU's place on PCI Express",
	},
	{number: unix.SYS_GETDENTS64, name: "getdents64", roles: onCUDA, why: "memory nodes"},
	{number: unix.SYS_GET_MEMPOLICY, name: "get_mempolicy", roles: onCUDA, why: "memory nodes"},
	{number: unix.SYS_SYSINFO, name: "sysinfo", roles: onCUDA, why: "the host's memory"},
	{number: unix.SYS_UNAME, name: "uname", roles: onCUDA, why: "the host's kernel"},
	{number: unix.SYS_GETUID, name: "getuid", roles: onCUDA, why: "whose cache it is"},
	{number: unix.SYS_GETEUID, name: "geteuid", roles: onCUDA, why: "the same"},
	{
		number: unix.SYS_PRLIMIT64, name: "prlimit64", roles: onCUDA,
		why: "its own limits, to read",
		rule: seccomp.PerArg{
			seccomp.EqualTo(0), seccomp.AnyValue{}, seccomp.EqualTo(0),
		},
	},
	{
		number: unix.SYS_SCHED_GET_PRIORITY_MAX, name: "sched_get_priority_max", roles: onCUDA,
		why: "attributes of the driver's threads",
	},
	{
		number: unix.SYS_SCHED_GET_PRIORITY_MIN, name: "sched_get_priority_min", roles: onCUDA,
		why: "the same",
	},
	{number: unix.SYS_MKDIR, name: "mkdir", roles: onCUDA,
		why: "the cache of compiled code, as for the kernel of a second GPU"},
	{number: unix.SYS_UNLINK, name: "unlink", roles: onCUDA,
		why: "the cache; links to devices, which Landlock refuses"},
	{number: unix.SYS_SYMLINK, name: "symlink", roles: onCUDA,
		why: "links to devices, which Landlock refuses"},
}
