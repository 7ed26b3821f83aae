// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

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
		"a longer mapping": raw(unix.SYS_MREMAP),
	}))),
	"mover": with(noOffers, map[string]func(){
		"delete a file": deleteFile, "be traced": beTraced, "list a directory": list,
		"make a folder": makeFolder,
	}),
	"worker on CUDA": with(guestsMemory, with(otherRequests, with(ofControl, map[string]func(){
		"delete a file": deleteFile, "be traced": beTraced,
		"another descriptor of the guest's memory": raw(unix.SYS_DUP, AskedFrom),
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
	"cut it short":                           raw(unix.SYS_FTRUNCATE, AskedFrom),
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

// byControl are what a worker's connection to the device process, and others, can be used for.
var byControl = map[string]func(){
	"files come from the device process": func() {
		if err := unix.Sendmsg(device, []byte{1}, unix.UnixRights(2), nil, 0); err != nil {
			panic(err)
		}
		rights := make([]byte, 64)
		_, n, _, _, err := unix.Recvmsg(control, make([]byte, 1), rights, 0)
		if err != nil || n != unix.CmsgSpace(4) {
			panic(fmt.Sprint(n, " bytes of rights, error ", err))
		}
	},
	"what others say comes without files": func() {
		if err := unix.Sendmsg(control, []byte{1}, unix.UnixRights(2), nil, 0); err != nil {
			panic(err)
		}
		next := func() int {
			fd, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				panic(err)
			}
			return fd
		}
		before := next()
		if n, _, err := unix.Recvfrom(device, make([]byte, 8), 0); n != 1 || err != nil {
			panic(fmt.Sprint(n, " bytes, error ", err))
		}
		if next() != before+1 {
			panic("a file came")
		}
	},
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

// allowed must go on.
var allowed = map[string]func(){
	"nothing": func() {},
	"threads, garbage and timers": func() {
		var all sync.WaitGroup
		for range 8 {
			all.Add(1)
			go func() {
				defer all.Done()
				runtime.LockOSThread() // a thread of its own, which ends with it
				b := make([]byte, 1<<20)
				b[len(b)-1] = 1
				runtime.GC()
				time.Sleep(time.Millisecond)
			}()
		}
		all.Wait()
	},
	"a fault that is caught": func() {
		defer func() {
			if recover() == nil {
				panic("no fault")
			}
		}()
		var p *int
		*p = 1
	},
	"clone3 isn't there": func() {
		if _, _, err := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0); err != unix.ENOSYS {
			panic(fmt.Sprint("error ", err))
		}
	},
}

// mapsAlone maps the guest's memory where nobody has the listener, and something of its own.
var mapsAlone = map[string]func(){
	"nobody allows a mapping": func() {
		for _, fd := range []int{AskedFrom, 1<<32 | AskedFrom, AskedFrom + 2*AskedNumbers} {
			if _, err := unix.MmapPtr(fd, 0, nil, 4096, unix.PROT_READ,
				unix.MAP_SHARED); err != unix.ENOSYS {
				panic(fmt.Sprint("error ", err))
			}
		}
	},
	"what isn't the guest's goes on": func() {
		for _, none := range []uintptr{1<<32 - 1, ^uintptr(0)} {
			if _, _, err := unix.RawSyscall6(unix.SYS_MMAP, 0, 4096, unix.PROT_READ,
				unix.MAP_ANON|unix.MAP_PRIVATE, none, 0); err != 0 {
				panic(fmt.Sprint("error ", err))
			}
			if _, _, err := unix.RawSyscall(unix.SYS_CLOSE, none, 0, 0); err != unix.EBADF {
				panic(fmt.Sprint("error ", err))
			}
		}
		fd, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3)
		if err == nil {
			err = unix.Close(fd)
		}
		if err != nil {
			panic(err)
		}
	},
}

var openFails = func() {
	if _, err := os.Open("/proc/self/status"); !errors.Is(err, os.ErrPermission) {
		panic(fmt.Sprint("error ", err))
	}
}

// answered is what some roles get an answer for, be it an error.
var answered = map[string]map[string]func(){
	"worker": with(with(mapsAlone, byControl), map[string]func(){
		"opening a file fails": openFails,
	}),
	"mover":          {"opening a file fails": openFails},
	"worker on CUDA": with(with(mapsAlone, byControl), with(driversCalls, byCUDA)),
	"mover on CUDA":  driversCalls,
	"keeper":         with(parentsCalls, map[string]func(){"a namespace": newNamespace}),
	"starter":        parentsCalls,
	"arbiter":        {"a file is opened": openWorks},
	"device": {
		"opening a file fails": openFails,
		"delete a file":        refusal(unix.SYS_UNLINKAT),
		"prctl":                refusal(unix.SYS_PRCTL, unix.PR_SET_PTRACER, ^uintptr(0)),
	},
}

// byCUDA are what NVIDIA's driver does, or may try, and what glibc may.
var byCUDA = map[string]func(){
	"a listener": func() {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
		}
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprint("@deed-", os.Getpid())})
		}
		if err == nil {
			err = unix.Listen(fd, 1)
		}
		if err != nil {
			panic(err)
		}
	},
	"accept":       answer(unix.ENOTSOCK, unix.SYS_ACCEPT4, 2),
	"a connection": answer(unix.ENOTSOCK, unix.SYS_CONNECT, 2),
	"receive from others": func() {
		_ = unix.Sendmsg(control, []byte{1}, unix.UnixRights(2), nil, 0)
		if _, _, _, _, err := unix.Recvmsg(device, make([]byte, 1), make([]byte, 64),
			0); err != unix.EACCES {
			panic(fmt.Sprint("error ", err))
		}
	},
	"glibc does without mremap": func() {
		if _, _, err := unix.RawSyscall(unix.SYS_MREMAP, 0, 0, 0); err != unix.ENOSYS {
			panic(fmt.Sprint("error ", err))
		}
	},
}

var openWorks = func() {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		panic(err)
	}
	f.Close()
}

// parentsCalls are what roles do that execute programs.
var parentsCalls = map[string]func(){
	"a file is opened": openWorks,
	"a program is executed": func() {
		if err := exec.Command("true").Run(); err != nil {
			panic(err)
		}
	},
	"a role of its own for a program": func() {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), deedVariable+"=worker/execute a program")
		err := c.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) ||
			exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGSYS {
			panic(fmt.Sprint("the worker: ", err))
		}
	},
	"no network": refusal(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM),
	"a call of a later kernel isn't there": func() {
		if _, _, err := unix.RawSyscall(500, 0, 0, 0); err != unix.ENOSYS {
			panic(fmt.Sprint("error ", err))
		}
	},
	"no device files": refusal(unix.SYS_MKNODAT),
}

var newNamespace = func() {
	if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil && !errors.Is(err, unix.EPERM) {
		panic(err)
	}
}

// driversCalls are some of what NVIDIA's driver does. The requests have no file that knows them.
var driversCalls = map[string]func(){
	"a file is opened": openWorks,
	"all threads are filtered": func() {
		found, err := filepath.Glob("/proc/self/task/*/status")
		if err != nil || len(found) < 2 {
			panic(fmt.Sprint(len(found), " threads: ", err))
		}
		for _, file := range found {
			if b, err := os.ReadFile(file); err == nil && (!bytes.Contains(b,
				[]byte("\nNoNewPrivs:\t1\n")) || !bytes.Contains(b, []byte("\nSeccomp:\t2\n"))) {
				panic(fmt.Sprintf("%s: %s", file, b))
			}
		}
	},
	"a request of any size": func() {
		for _, size := range []uintptr{0x10, 0x20, 0x38, 0x900} {
			_, _, err := unix.RawSyscall(unix.SYS_IOCTL, 0,
				0xc0000000|size<<16|'F'<<8|nvgpu.NV_ESC_RM_CONTROL, 0)
			if err != unix.ENOTTY && err != unix.EBADF {
				panic(err)
			}
		}
	},
	"a request of UVM's": func() {
		_, _, err := unix.RawSyscall(unix.SYS_IOCTL, 0, nvgpu.UVM_INITIALIZE, 0)
		if err != unix.ENOTTY && err != unix.EBADF {
			panic(err)
		}
	},
	"limits are read": func() {
		var l unix.Rlimit
		if err := unix.Prlimit(0, unix.RLIMIT_AS, nil, &l); err != nil {
			panic(err)
		}
	},
}

func refusal(number uintptr, args ...uintptr) func() {
	return answer(unix.EACCES, number, args...)
}

// answer makes a call that has an error for an answer.
func answer(want unix.Errno, number uintptr, args ...uintptr) func() {
	return func() {
		var a [3]uintptr
		copy(a[:], args)
		if _, _, err := unix.RawSyscall(number, a[0], a[1], a[2]); err != want {
			panic(fmt.Sprint("error ", err))
		}
	}
}
