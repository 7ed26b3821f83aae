// SPDX-License-Identifier: Apache-2.0

package takenover

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/memfd"
)

// possessions are what a worker has had since before it was confined: by itself it can't make them.
type possessions struct {
	loose           int // memory that can be cut short
	stream, packets [2]int
}

func possess() (p possessions, err error) {
	for kind, pair := range map[int]*[2]int{
		unix.SOCK_STREAM: &p.stream, unix.SOCK_DGRAM: &p.packets,
	} {
		var e error
		*pair, e = unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		err = errors.Join(err, e)
	}
	if err == nil {
		p.loose, err = unix.MemfdCreate("lent", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err == nil {
		err = unix.Ftruncate(p.loose, lentBytes)
	}
	if err != nil {
		return p, fmt.Errorf("have something to lend and to send: %w", err)
	}
	return p, nil
}

// What a deed takes in files, where soft-memory is SoftMemory: more than all workers may have.
const (
	SoftMemory = 64 << 20
	inFiles    = 1 << 30
	fileBytes  = 16 << 20
)

// HiddenName is the name of the deed that takes it.
const HiddenName = "files that nobody maps"

// hides has much memory in files. Of one it has a descriptor, another is in a message that nobody
// reads, and of the third it has a mapping, of which no page is there.
func (w *worker) hides() {
	text := make([]byte, fileBytes)
	for i := range text {
		text[i] = 1
	}
	for i := range inFiles / fileBytes {
		fd, err := memfd.Make(memfd.Form{Kind: memfd.StandIn, Bytes: fileBytes})
		if err != nil {
			return
		}
		if _, err := unix.Write(fd, text); err != nil {
			return
		}
		switch i % 3 {
		case 1:
			_ = unix.Sendmsg(w.had.packets[0], []byte{1}, unix.UnixRights(fd), nil,
				unix.MSG_DONTWAIT)
			unix.Close(fd)
		case 2:
			m, err := unix.Mmap(fd, 0, fileBytes, unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_SHARED)
			if err == nil {
				err = unix.Madvise(m, unix.MADV_DONTNEED)
			}
			if err != nil {
				return
			}
			unix.Close(fd)
		}
	}
}

// files are ways to memory that isn't the process's own in the kernel's eyes.
func files() []Deed {
	const shared, huge = unix.MAP_SHARED | unix.MAP_ANON, unix.MAP_HUGETLB | unix.MAP_ANON
	made := func() int {
		fd, err := memfd.Make(memfd.Form{Kind: memfd.Created, Bytes: fileBytes})
		if err != nil {
			panic(err)
		}
		return fd
	}
	return []Deed{
		call("makes memory of any size", func(*worker) error {
			_, err := unix.MemfdCreate("any", unix.MFD_CLOEXEC)
			return err
		}),
		call("has memory made of a size that no host has", func(*worker) error {
			const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
			return raw(unix.SYS_MEMFD_CREATE, 0, flags, 1<<60, uintptr(memfd.Created))
		}),
		call("has huge pages made", func(*worker) error {
			const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING | unix.MFD_HUGETLB
			return raw(unix.SYS_MEMFD_CREATE, 0, flags, fileBytes, uintptr(memfd.Created))
		}),
		call("makes a file longer", func(*worker) error {
			return unix.Ftruncate(made(), 1<<40)
		}),
		call("writes behind a file", func(*worker) error {
			fd := made()
			if _, err := unix.Write(fd, make([]byte, fileBytes)); err != nil {
				return nil // that it must be able to do
			}
			_, err := unix.Write(fd, []byte{1})
			return err
		}),
		call("fills a file", func(*worker) error {
			return unix.Fallocate(made(), 0, 0, fileBytes)
		}),
		call("unseals a file", func(*worker) error {
			_, err := unix.FcntlInt(uintptr(made()), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE)
			return err
		}),
		rawly("maps shared memory of no file", unix.SYS_MMAP, 0, 4096, unix.PROT_READ, shared,
			^uintptr(0)),
		rawly("maps huge pages", unix.SYS_MMAP, 0, fileBytes, unix.PROT_READ,
			unix.MAP_PRIVATE|huge, ^uintptr(0)),
		rawly("makes a pair of sockets", unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM),
		rawly("makes a pipe", unix.SYS_PIPE2),
		{Kind: "resource", Name: HiddenName, do: func(w *worker) string {
			w.hides()
			return ""
		}},
		{Kind: "resource", Name: "files without end", do: func(*worker) string {
			for range 100_000 {
				if _, err := memfd.Make(memfd.Form{Kind: memfd.Event, Bytes: 4096}); err != nil {
					return ""
				}
			}
			return "there are as many as it likes"
		}},
	}
}
