// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"maps"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/nvgpu"

	"github.com/paracuda/paracuda/gpubackend/sandbox/sandboxtest"
)

// What a child of the tests does under a filter: by name, so that it can be told by runDeed.

var testRoles = map[string]Role{
	"worker": SoftWorker, "mover": SoftMover, "device": Device,
	"worker on CUDA": CUDAWorker, "mover on CUDA": CUDAMover,
	"keeper": Keeper, "starter": StarterProcess, "arbiter": Arbiter,
}

// parentsMay are deeds of forbidden that some roles may do: programs that they execute need them.
var parentsMay = map[string][]string{
	"starter": starterMay,
	"keeper": append([]string{
		"mount", "another namespace", "openat2", "a namespace with a child",
	}, starterMay...),
}

var starterMay = []string{
	"execute a program", "fork", "vfork", "memory with code", "code in memory", "take a descriptor",
	"kill a process", "kill a thread", "change the directory", "ioctl", "rename a file",
	"make a directory", "new limits", "a network socket", "a netlink socket",
}

// raw makes a system call with up to three arguments.
func raw(number uintptr, args ...uintptr) func() {
	return func() {
		var a [3]uintptr
		copy(a[:], args)
		_, _, _ = unix.RawSyscall(number, a[0], a[1], a[2])
	}
}

// forbidden has one thing of each class that whoever took a process over might try.
var forbidden = map[string]func(){
	"execute a program": func() {
		_ = unix.Exec("/bin/true", []string{"true"}, nil)
	},
	"fork":  raw(unix.SYS_CLONE, uintptr(unix.SIGCHLD)),
	"vfork": raw(unix.SYS_VFORK),
	"memory with code": func() {
		_, _ = unix.Mmap(-1, 0, 4096, unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
	},
	"code in memory":          raw(unix.SYS_MPROTECT, 0, 4096, unix.PROT_READ|unix.PROT_EXEC),
	"a network socket":        raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM),
	"a netlink socket":        raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW),
	"a pair that isn't local": raw(unix.SYS_SOCKETPAIR, unix.AF_INET, unix.SOCK_STREAM),
	"trace a process":         raw(unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1),
	"read a process's memory": raw(unix.SYS_PROCESS_VM_READV, 1),
	"take a descriptor":       raw(unix.SYS_PIDFD_OPEN, 1),
	"its descriptor":          raw(unix.SYS_PIDFD_GETFD, 0),
	"write to its memory":     raw(unix.SYS_PROCESS_VM_WRITEV, 1),
	"advise its memory":       raw(unix.SYS_PROCESS_MADVISE, 0),
	"kill a process":          raw(unix.SYS_KILL, 1, 0),
	"kill a thread":           raw(unix.SYS_TGKILL, 1, 1, 0),
	"mount":                   raw(unix.SYS_MOUNT),
	"another namespace":       raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
	"enter a namespace":       raw(unix.SYS_SETNS, 0),
	"a namespace with a child": raw(unix.SYS_CLONE,
		uintptr(unix.CLONE_NEWUSER|unix.SIGCHLD)),
	"change the root":      raw(unix.SYS_CHROOT),
	"change the directory": raw(unix.SYS_CHDIR),
	"load a module":        raw(unix.SYS_FINIT_MODULE),
	"another kernel":       raw(unix.SYS_KEXEC_FILE_LOAD),
	"swap space":           raw(unix.SYS_SWAPON),
	"a port":               raw(unix.SYS_IOPERM, 0x80, 1, 1),
	"the kernel's log":     raw(unix.SYS_SYSLOG, 3),
	"watch all files":      raw(unix.SYS_FANOTIFY_INIT),
	"BPF":                  raw(unix.SYS_BPF),
	"io_uring":             raw(unix.SYS_IO_URING_SETUP, 1),
	"perf":                 raw(unix.SYS_PERF_EVENT_OPEN),
	"userfaultfd":          raw(unix.SYS_USERFAULTFD),
	"keys":                 raw(unix.SYS_KEYCTL),
	"a new key":            raw(unix.SYS_ADD_KEY),
	"ioctl":                raw(unix.SYS_IOCTL, 0),
	"another user":         raw(unix.SYS_SETUID, 1),
	"another group":        raw(unix.SYS_SETGROUPS, 0),
	"open by handle":       raw(unix.SYS_OPEN_BY_HANDLE_AT),
	"openat2":              raw(unix.SYS_OPENAT2),
	"rename a file":        raw(unix.SYS_RENAMEAT2),
	"make a directory":     raw(unix.SYS_MKDIRAT),
	"limits of a process":  raw(unix.SYS_PRLIMIT64, 1),
	"new limits":           raw(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 1),
	"the clock":            raw(unix.SYS_SETTIMEOFDAY),
	"restart the host":     raw(unix.SYS_REBOOT),
	"a call of x32":        raw(x32 | unix.SYS_SCHED_YIELD),
	call32:                 func() { sandboxtest.Call32(unix.SYS_SCHED_YIELD) },
}

// Each role may make a call of this number, but not of the other lists of calls that a kernel has:
// there it may be another call.
const (
	x32    = 1 << 30
	call32 = "a call of 32 bits"
)

var (
	deleteFile = raw(unix.SYS_UNLINKAT)
	beTraced   = raw(unix.SYS_PRCTL, unix.PR_SET_PTRACER, ^uintptr(0))
	list       = raw(unix.SYS_GETDENTS64)
	makeFolder = raw(unix.SYS_MKDIR)
	requestOf  = func(number uintptr) func() { return raw(unix.SYS_IOCTL, 0, number) }
)

// alsoForbidden is what some roles may and others mustn't.
var alsoForbidden = map[string]map[string]func(){
	"worker": with(guestsMemory, with(noOffers, with(ofControl, map[string]func(){
		"receive from others": receive,
		"delete a file":       deleteFile, "be traced": beTraced, "list a directory": list,
		"make a folder": makeFolder, "read limits": raw(unix.SYS_PRLIMIT64),
		"a longer mapping":  raw(unix.SYS_MREMAP),
		"memory for a file": raw(unix.SYS_FALLOCATE, 0, 0, 0),
		"memory that stays": raw(unix.SYS_FALLOCATE, 0, unix.FALLOC_FL_KEEP_SIZE, 0),
		"pairs of sockets":  raw(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM),
		"pipes":             raw(unix.SYS_PIPE2),
	}))),
	"mover": with(noOffers, map[string]func(){
		"delete a file": deleteFile, "be traced": beTraced, "list a directory": list,
		"make a folder": makeFolder,
	}),
	"worker on CUDA": with(guestsMemory, with(otherRequests, with(ofControl, map[string]func(){
		"delete a file": deleteFile, "be traced": beTraced,
		"another descriptor of the guest's memory": raw(unix.SYS_DUP, AskedFrom),
		"cut the guest's memory short":             raw(unix.SYS_FTRUNCATE, AskedFrom),
	}))),
	"mover on CUDA": with(noOffers, with(otherRequests, map[string]func(){
		"delete a file": deleteFile, "be traced": beTraced,
	})),
	"arbiter": with(noOffers, map[string]func(){
		"be traced": beTraced, "list a directory": list, "make a folder": makeFolder,
		"a name": raw(unix.SYS_BIND, 0), "read limits": raw(unix.SYS_PRLIMIT64),
		"an option of another protocol": raw(unix.SYS_SETSOCKOPT, 0, unix.IPPROTO_IP),
	}),
	"device": with(noOffers, map[string]func(){
		"list a directory": list,
		"a name":           raw(unix.SYS_BIND, 0),
		"permissions":      raw(unix.SYS_FCHMOD, 0, 0),
		"read at a place":  raw(unix.SYS_PREAD64, 0),
		"stop a process":   raw(unix.SYS_PIDFD_SEND_SIGNAL, 0, uintptr(unix.SIGSTOP)),
	}),
}

// guestsMemory are uses of descriptors that stand for the guest's memory.
var guestsMemory = map[string]func(){
	"read the guest's memory":                raw(unix.SYS_READ, AskedFrom),
	"read it by the number's lower half":     raw(unix.SYS_READ, 1<<32|AskedFrom),
	"read the last of it":                    raw(unix.SYS_PREAD64, AskedFrom+2*AskedNumbers-1),
	"write to it":                            raw(unix.SYS_WRITE, AskedFrom),
	"forget which memory it is":              raw(unix.SYS_CLOSE, AskedFrom),
	"copy its descriptor":                    raw(unix.SYS_FCNTL, AskedFrom, unix.F_DUPFD),
	"put another file there":                 raw(unix.SYS_FCNTL, 0, unix.F_DUPFD, AskedFrom),
	"put one there that programs don't have": raw(unix.SYS_FCNTL, 0, unix.F_DUPFD_CLOEXEC, 1<<15),
	"copies by a wider command":              raw(unix.SYS_FCNTL, 0, 1<<32, 1<<15),
	"copy to its number":                     raw(unix.SYS_DUP3, 0, AskedFrom),
	"forget all":                             raw(unix.SYS_CLOSE_RANGE, AskedFrom, 1<<31),
}

// ofControl are uses of the connection to the device process.
var ofControl = map[string]func(){
	"forget the device process": func() { _ = unix.Close(control) },
	"forget it by its lower half": func() {
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, 1<<32|uintptr(control), 0, 0)
	},
	"put another in its place": func() { _ = unix.Dup3(device, control, 0) },
	"receive many":             raw(unix.SYS_RECVMMSG),
}

// receive receives a file by another connection.
var receive = func() {
	_ = unix.Sendmsg(control, []byte{1}, unix.UnixRights(2), nil, 0)
	_, _, _, _, _ = unix.Recvmsg(device, make([]byte, 1), make([]byte, 64), 0)
}

// noOffers is what only device processes and arbiters do.
var noOffers = map[string]func(){
	"a local socket": raw(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM),
	"a connection":   raw(unix.SYS_CONNECT, 0),
	"a listener":     raw(unix.SYS_LISTEN, 0),
}

const exportDMABuf = nvgpu.NV_ESC_EXPORT_TO_DMABUF_FD

// otherRequests are ioctls that aren't those of NVIDIA's driver, and some of its that aren't
// needed. Each has no file.
var otherRequests = map[string]func(){
	"write to a terminal":         requestOf(unix.TIOCSTI),
	"read memory by UVM's tools":  requestOf(nvgpu.UVM_TOOLS_READ_PROCESS_MEMORY),
	"write memory by UVM's tools": requestOf(nvgpu.UVM_TOOLS_WRITE_PROCESS_MEMORY),
	"a request of another type":   requestOf(0xc0100000 | 'E'<<8 | nvgpu.NV_ESC_RM_FREE),
	"a request that is unknown":   requestOf(0xc0100000 | 'F'<<8 | 0x01),
	"memory for other devices":    requestOf(0xc0100000 | 'F'<<8 | exportDMABuf),
}

// with returns the deeds of both.
func with(a, b map[string]func()) map[string]func() {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
