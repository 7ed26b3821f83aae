// SPDX-License-Identifier: Apache-2.0

package takenover

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

func sortByName(list []Deed) {
	slices.SortFunc(list, func(a, b Deed) int { return cmp.Compare(a.Name, b.Name) })
}

// call is a deed that makes a system call. The call must fail, or the process must die of it.
func call(name string, do func(w *worker) error) Deed {
	return Deed{Kind: "host", Name: name, do: func(w *worker) string {
		if err := do(w); err == nil {
			return "the kernel did it"
		}
		return ""
	}}
}

// rawly makes a system call.
func rawly(name string, number uintptr, args ...uintptr) Deed {
	return call(name, func(*worker) error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	})
}

func opens(path string, flags int) Deed {
	return call(fmt.Sprintf("opens %s (%#x)", path, flags), func(*worker) error {
		fd, err := unix.Open(path, flags, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err
	})
}

func connects(name string, address unix.Sockaddr) Deed {
	return call("connects to "+name, func(*worker) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Connect(fd, address)
	})
}

// calls are the system calls that a worker tries.
func calls() []Deed {
	const all = unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC
	return []Deed{
		call("executes a program", func(*worker) error {
			return unix.Exec("/paracuda", []string{"paracuda", "version"}, nil)
		}),
		rawly("forks", unix.SYS_CLONE, uintptr(unix.SIGCHLD)),
		rawly("makes code", unix.SYS_MMAP, 0, 4096, all, unix.MAP_ANON|unix.MAP_PRIVATE,
			^uintptr(0)),
		call("makes its memory code", func(*worker) error {
			m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE)
			if err != nil {
				return err
			}
			return unix.Mprotect(m, all)
		}),
		rawly("makes a network socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM),
		rawly("makes a netlink socket", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW),
		rawly("traces its parent", unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1),
		// Signal 0 does no harm if there is no sandbox.
		rawly("signals the first process", unix.SYS_KILL, 1, 0),
		rawly("signals everybody", unix.SYS_KILL, ^uintptr(0), 0),
		rawly("names the first process", unix.SYS_PIDFD_OPEN, 1, 0),
		rawly("makes a namespace", unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		rawly("makes a BPF map", unix.SYS_BPF),
		rawly("makes an io_uring", unix.SYS_IO_URING_SETUP, 8),
		rawly("takes faults", unix.SYS_USERFAULTFD),
		rawly("counts events", unix.SYS_PERF_EVENT_OPEN),
		rawly("takes keys", unix.SYS_KEYCTL),
		rawly("changes its root", unix.SYS_CHROOT),
		rawly("mounts", unix.SYS_MOUNT),
		rawly("becomes root", unix.SYS_SETUID, 0),
		rawly("has more files", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE),
		rawly("reads the parent's memory", unix.SYS_PROCESS_VM_READV, 1),
		rawly("loads a module", unix.SYS_FINIT_MODULE),
		opens("/etc/passwd", unix.O_RDONLY),
		opens("/proc/self/mem", unix.O_RDWR),
		opens("/proc/1/environ", unix.O_RDONLY),
		opens("/proc/kcore", unix.O_RDONLY),
		opens("/sys/kernel/uevent_helper", unix.O_WRONLY),
		opens("/dev/kvm", unix.O_RDWR),
		opens("/dev/mem", unix.O_RDWR),
		opens("/tmp/left", unix.O_CREAT|unix.O_WRONLY),
		opens("/", unix.O_TMPFILE|unix.O_RDWR),
		connects("the front end's socket", &unix.SockaddrUnix{Name: os.Getenv(SocketVariable)}),
		connects("a socket of the host's",
			&unix.SockaddrUnix{Name: os.Getenv(HostSocketVariable)}),
		connects("the host's log", &unix.SockaddrUnix{Name: "/dev/log"}),
	}
}

// For deeds that connect: SocketVariable has the path of the VM's socket, HostSocketVariable the
// name of an abstract one at which the test listens.
const (
	SocketVariable     = "PARACUDA_TEST_SOCKET"
	HostSocketVariable = "PARACUDA_TEST_HOST_SOCKET"
)

// What deeds take of the host's memory, where host-memory and vm-host-memory are HostMemory: Heavy
// is more than a worker may have, and Light isn't, but two workers may not have that.
const (
	HostMemory = 64 << 20
	Heavy      = 768 << 20
	Light      = 608 << 20
)

// LightName is the name of the deed that takes Light.
const LightName = "much memory, but less than it may have"

// takes has much memory.
func takes(bytes int) {
	m, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	for i := 0; err == nil && i < bytes; i += 4096 {
		m[i] = 1
	}
}

// resources are deeds that take all of something, or don't end.
func resources() []Deed {
	taking := func(name string, deaf bool, do func(w *worker) string) Deed {
		return Deed{Kind: "resource", Name: name, Deaf: deaf, do: do}
	}
	return []Deed{
		taking("all descriptors", false, func(*worker) string {
			for range 100_000 {
				if _, err := unix.Eventfd(0, 0); err != nil {
					break
				}
			}
			return ""
		}),
		taking("mappings", false, func(*worker) string {
			for i := range 1 << 21 {
				if _, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ<<(i%2),
					unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
					return ""
				}
			}
			return "there are two million"
		}),
		taking("threads", false, func(*worker) string {
			for range 500 {
				go func() {
					runtime.LockOSThread()
					select {}
				}()
			}
			time.Sleep(100 * time.Millisecond)
			return ""
		}),
		taking("too much memory", true, func(*worker) string {
			takes(Heavy)
			select {}
		}),
		taking(LightName, false, func(*worker) string {
			takes(Light)
			return ""
		}),
		taking("lines of log", false, func(w *worker) string {
			line := strings.Repeat("panic! ", 100) + "\n"
			for range 20_000 {
				fmt.Fprint(w.log, line)
			}
			return ""
		}),
		taking("a processor, and it doesn't listen", true, func(*worker) string {
			for range 2 {
				go func() {
					for n := uint64(1); n != 0; n |= 1 { // never 0
					}
				}()
			}
			return ""
		}),
		taking("it stops itself", true, func(w *worker) string {
			w.report(Ended, "")
			_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
			return ""
		}),
		taking("it kills itself", false, func(*worker) string {
			_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGKILL)
			return "it lives"
		}),
		taking("it ends at once", false, func(w *worker) string {
			w.report(Ended, "")
			end()
			return ""
		}),
		taking("it is stopped, and stays", true, func(w *worker) string {
			w.tell(handover.KindStopped)
			return ""
		}),
	}
}
