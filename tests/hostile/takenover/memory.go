// SPDX-License-Identifier: Apache-2.0

package takenover

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// upper is a bit of a descriptor's upper half, which the kernel ignores.
const upper = 1 << 32

// ofMemory is a deed with the number by which a worker maps the guest's memory. It must fail, or
// the process must die of it.
func ofMemory(name string, do func(w *worker, number uintptr) error) Deed {
	d := call(name, func(w *worker) error { return do(w, uintptr(w.guest.File)) })
	d.Kind = "memory"
	return d
}

// raw makes a system call.
func raw(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// maps maps a page, or more, and unmaps it if it can.
func maps(fd, length, prot, flags, offset uintptr) error {
	p, _, errno := unix.RawSyscall6(unix.SYS_MMAP, 0, length, prot, flags, fd, offset)
	if errno != 0 {
		return errno
	}
	_ = raw(unix.SYS_MUNMAP, p, length)
	return nil
}

// memory are what a worker does to the guest's memory, beyond what the device process lets it map.
func memory() []Deed {
	const (
		page   = 4096
		read   = unix.PROT_READ
		shared = unix.MAP_SHARED
	)
	list := []Deed{
		ofMemory("maps what is behind it", func(w *worker, n uintptr) error {
			return maps(n, page, read, shared, uintptr(w.guest.Size))
		}),
		ofMemory("maps its last page and more", func(w *worker, n uintptr) error {
			return maps(n, 2*page, read, shared, uintptr(w.guest.Size)-page)
		}),
		ofMemory("maps it behind all offsets", func(_ *worker, n uintptr) error {
			return maps(n, page, read, shared, math.MaxUint64&^(page-1))
		}),
		ofMemory("maps more than there is", func(_ *worker, n uintptr) error {
			return maps(n, math.MaxInt64, read, shared, 0)
		}),
		ofMemory("maps it as its own", func(_ *worker, n uintptr) error {
			return maps(n, page, read, unix.MAP_PRIVATE, 0)
		}),
		ofMemory("maps it as code", func(_ *worker, n uintptr) error {
			return maps(n, page, read|unix.PROT_EXEC, shared, 0)
		}),
		ofMemory("maps a file that there isn't", func(_ *worker, n uintptr) error {
			return maps(n+1, page, read, shared, 0)
		}),
		ofMemory("maps the last file that there can be", func(*worker, uintptr) error {
			return maps(math.MaxInt32, page, read, shared, 0)
		}),
		ofMemory("makes a mapping longer", func(w *worker, _ uintptr) error {
			_, err := unix.Mremap(w.ram, len(w.ram)+page, unix.MREMAP_MAYMOVE)
			return err
		}),
		ofMemory("asks for what isn't there, without end, by many threads",
			func(_ *worker, n uintptr) (err error) {
				var all sync.WaitGroup
				errs := make(chan error, 8)
				for range cap(errs) {
					all.Go(func() {
						var err error
						for range 2_000 {
							err = maps(n+1, page, read, shared, 0)
						}
						errs <- err
					})
				}
				all.Wait()
				for range cap(errs) {
					err = errors.Join(err, <-errs)
				}
				return err
			}),
		Deed{Kind: "memory", Name: "lends it to the mover", do: func(w *worker) string {
			m := w.connect()
			if m == nil || !m.attach(w.guest.File, 0, lendUnit) {
				return ""
			}
			return "the mover took it"
		}},
	}
	b := make([]byte, page)
	for name, do := range map[string]func(n uintptr) error{
		"reads it": func(n uintptr) error { _, err := unix.Read(int(n), b); return err },
		"reads a page": func(n uintptr) error {
			_, err := unix.Pread(int(n), b, page)
			return err
		},
		"writes to it": func(n uintptr) error { _, err := unix.Write(int(n), b); return err },
		"cuts it short": func(n uintptr) error {
			return raw(unix.SYS_FTRUNCATE, n, 0)
		},
		"makes holes": func(n uintptr) error {
			const holes = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
			return raw(unix.SYS_FALLOCATE, n, holes, 0, page)
		},
		"closes it": func(n uintptr) error {
			return raw(unix.SYS_CLOSE, n)
		},
		"closes all from it on": func(n uintptr) error {
			return raw(unix.SYS_CLOSE_RANGE, n, math.MaxInt32)
		},
		"copies its descriptor": func(n uintptr) error {
			return raw(unix.SYS_DUP, n)
		},
		"copies it to another": func(n uintptr) error {
			return raw(unix.SYS_DUP3, n, 100)
		},
		"copies it by fcntl": func(n uintptr) error {
			return raw(unix.SYS_FCNTL, n, unix.F_DUPFD)
		},
		"puts a file there": func(n uintptr) error {
			return raw(unix.SYS_DUP2, 1, n&(upper-1))
		},
		"puts a file behind it": func(n uintptr) error {
			return raw(unix.SYS_FCNTL, 1, 0, n)
		},
		"seals it": func(n uintptr) error {
			return raw(unix.SYS_FCNTL, n, unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
		},
		"sends it to its own log": func(n uintptr) error {
			return raw(unix.SYS_SENDFILE, 1, n, 0, page)
		},
		"splices it": func(n uintptr) error {
			return raw(unix.SYS_SPLICE, n, 0, 1, 0, page)
		},
	} {
		list = append(list, ofMemory(name, func(_ *worker, n uintptr) error { return do(n) }),
			ofMemory(name+", by its lower half", func(_ *worker, n uintptr) error {
				return do(n | upper)
			}))
	}
	sortByName(list)
	return list
}

// passes are ways by which a worker might pass itself, or others, the number by which it may only
// map the guest's memory: what is received has a number of its own, and could be read and mapped.
func passes() []Deed {
	list := []Deed{
		ofMemory("sends it to itself", func(w *worker, n uintptr) error {
			return comesBack(w.had.stream, nil)(n)
		}),
		ofMemory("sends it to itself, in packets", func(w *worker, n uintptr) error {
			return comesBack(w.had.packets, nil)(n)
		}),
		ofMemory("receives it with others", func(*worker, uintptr) error {
			return raw(unix.SYS_RECVMMSG, 0, 0, 0)
		}),
		ofMemory("sends it where it listens", func(_ *worker, n uintptr) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err == nil {
				err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@own"})
			}
			if err == nil {
				err = unix.Connect(fd, &unix.SockaddrUnix{Name: "@own"})
			}
			if err != nil {
				return err
			}
			return comesBack([2]int{fd, fd}, nil)(n)
		}),
		ofMemory("receives it by the number of its connection", func(w *worker, n uintptr) error {
			err := unix.Close(w.fd)
			if err != nil {
				return err
			}
			return comesBack(w.had.stream, nil)(n)
		}),
		ofMemory("puts a pair in place of its connection", func(w *worker, n uintptr) error {
			ends := w.had.stream
			err := unix.Dup3(ends[0], w.fd, 0)
			ends[0] = w.fd
			return comesBack(ends, err)(n)
		}),
		{Kind: "memory", Name: "asks for it as what it shares", do: func(w *worker) string {
			return w.asksItself(w.guest.File)
		}},
		{Kind: "memory", Name: "asks for what it shares", do: func(w *worker) string {
			if w.asksItself(w.files.Kick) == "" {
				return "it wasn't given: the other deed proves nothing"
			}
			return ""
		}},
	}
	for _, name := range names {
		for _, flags := range []int{unix.O_RDONLY, unix.O_RDWR} {
			list = append(list, ofMemory(fmt.Sprintf("opens it by %sN (%#x)", name, flags),
				func(_ *worker, n uintptr) error { return reopens(name, int(n), flags) }))
		}
	}
	return append(list, onCUDA(list)...)
}

// names are those of a descriptor, with P and T in place of the process's and the thread's number.
var names = []string{
	"/proc/self/fd/", "/proc/thread-self/fd/", "/proc/P/fd/", "/proc/T/fd/",
	"/proc/self/task/T/fd/", "/dev/fd/",
}

// reopens opens a descriptor by its name.
func reopens(name string, fd, flags int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	path := strings.NewReplacer("P", strconv.Itoa(os.Getpid()), "T",
		strconv.Itoa(unix.Gettid())).Replace(name)
	_, err := unix.Open(path+strconv.Itoa(fd), flags, 0)
	return err
}

// onCUDA are the same deeds of a worker on CUDA, which may open some files.
func onCUDA(list []Deed) (all []Deed) {
	for _, d := range list {
		d.CUDA, d.Name = true, d.Name+", on CUDA"
		all = append(all, d)
	}
	return append(all,
		Deed{Kind: "memory", Name: "opens what is its own, on CUDA", CUDA: true,
			do: func(w *worker) string {
				if err := reopens(names[0], w.had.loose, unix.O_RDWR); err != nil {
					return fmt.Sprint(err, ": the other deeds prove nothing")
				}
				return ""
			}},
		Deed{Kind: "memory", Name: "opens only its name, on CUDA", CUDA: true,
			do: func(w *worker) string {
				fd, err := unix.Open(names[0]+strconv.Itoa(w.guest.File), unix.O_PATH, 0)
				if err != nil {
					return ""
				}
				if err := maps(uintptr(fd), 4096, unix.PROT_READ, unix.MAP_SHARED, 0); err == nil {
					return "it can be mapped"
				}
				if _, err := unix.Pread(fd, make([]byte, 1), 0); err == nil {
					return "it can be read"
				}
				for _, flags := range []int{unix.O_RDONLY, unix.O_RDWR} {
					if reopens(names[0], fd, flags) == nil {
						return "it can be opened by its name's name"
					}
				}
				return ""
			}})
}

// comesBack sends a number by one end of a pair, and receives it by the other one.
func comesBack(ends [2]int, err error) func(number uintptr) error {
	return func(number uintptr) error {
		if err == nil {
			err = unix.Sendmsg(ends[1], []byte{1}, unix.UnixRights(int(number)), nil, 0)
		}
		if err != nil {
			return err
		}
		rights := make([]byte, unix.CmsgSpace(4))
		_, n, _, _, err := unix.Recvmsg(ends[0], make([]byte, 1), rights, 0)
		if err == nil && n < len(rights) {
			err = unix.ENOMSG
		}
		return err
	}
}

// asksItself asks for what it shares itself, which it gives with a file, and says whether the
// device process passes that on.
func (w *worker) asksItself(file int) string {
	what := []handover.ShareName{{Kind: "memory", Secret: [handover.SecretBytes]byte{1}}}
	w.say(&handover.Message{Kind: handover.KindShare, Shared: what})
	w.say(&handover.Message{Kind: handover.KindSeek, Turn: 5, Shared: what})
	asked, _ := w.await(handover.KindGive)
	if asked == nil {
		return ""
	}
	w.say(&handover.Message{Kind: handover.KindGiven, Turn: asked.Turn,
		Files: handover.Files{Object: true}}, file)
	if found, files := w.await(handover.KindFound); found != nil && len(files) > 0 {
		return "the device process passes it on"
	}
	return ""
}
