// SPDX-License-Identifier: Apache-2.0

package takenover

import (
	"errors"
	"math"
	"sync"

	"golang.org/x/sys/unix"
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
