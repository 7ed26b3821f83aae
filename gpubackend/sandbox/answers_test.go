// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/nvgpu"
)

// What a child of the tests does that a filter lets it do, or answers.

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

// makesAlone are ways to memory that the kernel doesn't count as the process's own, where nobody
// has the listener: nobody allows any.
var makesAlone = map[string]func(){
	"a file in memory": answer(unix.ENOSYS, unix.SYS_MEMFD_CREATE, 0,
		unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING, 4096),
	"a file's size": answer(unix.ENOSYS, unix.SYS_FTRUNCATE, 2, 1<<30),
	"shared memory, huge pages, or any that is both": func() {
		for _, flags := range []int{unix.MAP_SHARED, unix.MAP_SHARED_VALIDATE,
			unix.MAP_PRIVATE | unix.MAP_HUGETLB, unix.MAP_SHARED | unix.MAP_HUGETLB} {
			if _, err := unix.MmapPtr(-1, 0, nil, 4096, unix.PROT_READ|unix.PROT_WRITE,
				flags|unix.MAP_ANONYMOUS); err == nil {
				panic(fmt.Sprintf("flags %#x: it has the memory", flags))
			}
		}
		if _, err := unix.MmapPtr(2, 0, nil, 4096, unix.PROT_READ,
			unix.MAP_PRIVATE|unix.MAP_HUGETLB); err != unix.ENOSYS {
			panic(fmt.Sprint("huge pages of a file: ", err))
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
	"worker": with(with(with(mapsAlone, byControl), makesAlone), map[string]func(){
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
