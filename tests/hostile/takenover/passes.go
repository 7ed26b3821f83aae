// SPDX-License-Identifier: Apache-2.0

package takenover

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// passes are ways by which a worker might pass itself, or others, the number by which it may only
// map the guest's memory: what is received has a number of its own, and could be read and mapped.
func passes() []Deed {
	list := []Deed{
		ofMemory("sends it to itself", func(_ *worker, n uintptr) error {
			return comesBack(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0))(n)
		}),
		ofMemory("sends it to itself, in packets", func(_ *worker, n uintptr) error {
			return comesBack(unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0))(n)
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
			return comesBack(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0))(n)
		}),
		ofMemory("puts a pair in place of its connection", func(w *worker, n uintptr) error {
			ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err == nil {
				err = unix.Dup3(ends[0], w.fd, 0)
			}
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
	for _, name := range []string{"/proc/self/fd/%d", "/proc/thread-self/fd/%d",
		fmt.Sprintf("/proc/self/task/%d/fd/%%d", os.Getpid()), "/dev/fd/%d",
		fmt.Sprintf("/proc/%d/fd/%%d", os.Getpid()), "/proc/%[2]d/fd/%[1]d"} {
		for _, flags := range []int{unix.O_RDONLY, unix.O_RDWR, unix.O_PATH} {
			list = append(list, ofMemory(fmt.Sprintf("opens it by %s (%#x)", name, flags),
				func(_ *worker, n uintptr) error {
					path := fmt.Sprintf(name, int(n))
					if name[len(name)-5:] == "%[1]d" {
						path = fmt.Sprintf(name, int(n), unix.Gettid())
					}
					_, err := unix.Open(path, flags, 0)
					return err
				}))
		}
	}
	return list
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

// shares are words about what workers share, which others don't notice.
func shares() []Deed {
	named := func(i int) []handover.ShareName {
		return []handover.ShareName{{Kind: "memory",
			Secret: [handover.SecretBytes]byte{2, byte(i), byte(i >> 8), byte(i >> 16)}}}
	}
	return []Deed{
		message("shares without end", many(20_000, func(w *worker, i int) {
			w.say(&handover.Message{Kind: handover.KindShare, Shared: named(i)})
		})),
		message("questions without end", many(5_000, func(w *worker, i int) {
			w.say(&handover.Message{Kind: handover.KindSeek, Turn: uint64(i), Shared: named(i)})
		})),
		message("questions that it doesn't answer", many(5_000, func(w *worker, i int) {
			if i == 0 {
				w.say(&handover.Message{Kind: handover.KindShare, Shared: named(0)})
			}
			w.say(&handover.Message{Kind: handover.KindSeek, Turn: uint64(i), Shared: named(0)})
		})),
		message("answers that nobody waits for", many(2_000, func(w *worker, i int) {
			w.say(&handover.Message{Kind: handover.KindGiven, Turn: uint64(i),
				Files: handover.Files{Object: true}}, w.files.Kick)
		})),
		message("an end of what it never began", func(w *worker) {
			w.say(&handover.Message{Kind: handover.KindUnshare, Shared: named(7)})
			w.say(&handover.Message{Kind: handover.KindShare, Over: true})
		}),
		message("no question at all, and the longest one", func(w *worker) {
			w.say(&handover.Message{Kind: handover.KindSeek})
			w.say(&handover.Message{Kind: handover.KindSeek, Turn: math.MaxUint64,
				Shared: make([]handover.ShareName, 1000)})
		}),
	}
}
