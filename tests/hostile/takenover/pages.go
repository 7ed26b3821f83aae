// SPDX-License-Identifier: Apache-2.0

package takenover

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// guestBytes is how much memory the guest of the tests has.
const guestBytes = 256 << 20

// What the ledger's page looks like (gpubackend/ledger/page.go): a section for each GPU, in which
// each process has a line.
const (
	sectionsAt   = 4096
	lineBytes    = 128
	sectionBytes = (1 + ledger.Entries) * lineBytes
)

// page is memory that a worker shares with others of the VM.
type page struct {
	name string
	file func(w *worker) int
	is   func(w *worker, at int) bool // what of it the worker writes to
}

// shared are those pages. In the ledger a worker writes to its own line only: what is in the lines
// of others stays until these have ended, and the VM's programs may lack device memory so long.
var shared = []page{
	{"the state of its queue", func(w *worker) int { return w.files.State },
		func(*worker, int) bool { return true }},
	{"its line of the ledger", func(w *worker) int { return w.files.Ledger },
		func(w *worker, at int) bool {
			at -= sectionsAt
			return at >= 0 && at < ledger.GPUs*sectionBytes &&
				at%sectionBytes/lineBytes == 1+w.start.Entry
		}},
}

// pages are what a worker does to memory that it shares with others.
func pages() (list []Deed) {
	noise := func(int) byte { return byte(rand.Uint32()) }
	for _, p := range shared {
		add := func(name string, do func(w *worker) string) {
			list = append(list, Deed{Kind: "page", Name: p.name + ": " + name, Lies: true, do: do})
		}
		for name, b := range map[string]func(i int) byte{
			"zeros": func(int) byte { return 0 },
			"ones":  func(int) byte { return 0xff },
			"steps": func(i int) byte { return byte(i) },
			"noise": noise,
		} {
			add(name, func(w *worker) string { return w.fill(p, b) })
		}
		add("noise for a second", func(w *worker) string {
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				if s := w.fill(p, noise); s != "" {
					return s
				}
			}
			return ""
		})
		add("cut short", func(w *worker) string {
			if unix.Ftruncate(p.file(w), 0) == nil {
				return "it was cut short"
			}
			return ""
		})
		add("larger", func(w *worker) string {
			if unix.Ftruncate(p.file(w), 1<<40) == nil {
				return "it was made larger"
			}
			return ""
		})
	}
	sortByName(list)
	return list
}

// fill writes to a page, and says so if it can't.
func (w *worker) fill(p page, b func(i int) byte) string {
	var st unix.Stat_t
	if err := unix.Fstat(p.file(w), &st); err != nil {
		return "no such page: " + err.Error()
	}
	mem, err := unix.Mmap(p.file(w), 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		return "no such page: " + err.Error()
	}
	for i := range mem {
		if p.is(w, i) {
			mem[i] = b(i)
		}
	}
	_ = unix.Munmap(mem)
	return ""
}

// queueDeed changes its queue's rings.
func queueDeed(name string, do func(w *worker)) Deed {
	return Deed{Kind: "queue", Name: name, do: func(w *worker) string {
		do(w)
		for range 100 {
			_, _ = unix.Write(w.files.Call, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		}
		return ""
	}}
}

// queue are what a worker does to the queue that it serves.
func queue() []Deed {
	used := func(w *worker) []byte { return w.ram[w.start.Queue.Used:] }
	le := binary.LittleEndian
	give := func(w *worker, at int, head, n uint32) {
		le.PutUint32(used(w)[4+8*at:], head)
		le.PutUint32(used(w)[8+8*at:], n)
	}
	return []Deed{
		queueDeed("it returns what it never took", func(w *worker) {
			give(w, 0, uint32(w.start.Queue.Size)-1, 4096)
			le.PutUint16(used(w)[2:], 1)
		}),
		queueDeed("heads that there aren't", func(w *worker) {
			give(w, 0, 1<<31, 4096)
			give(w, 1, 0xffff, 4096)
			le.PutUint16(used(w)[2:], 2)
		}),
		queueDeed("one head again and again", func(w *worker) {
			for i := range int(w.start.Queue.Size) {
				give(w, i, 0, 0)
			}
			le.PutUint16(used(w)[2:], w.start.Queue.Size)
		}),
		queueDeed("lengths without end", func(w *worker) {
			give(w, 0, 0, 1<<32-1)
			le.PutUint16(used(w)[2:], 1)
		}),
		queueDeed("its index jumps", func(w *worker) { le.PutUint16(used(w)[2:], 0x8000) }),
		queueDeed("noise in all rings", func(w *worker) {
			q := w.start.Queue
			for _, at := range []uint64{q.Desc, q.Avail, q.Used} {
				for i := range 16 * uint64(q.Size) {
					w.ram[at+i] = byte(rand.Uint32())
				}
			}
		}),
		queueDeed("interrupts without end", func(w *worker) {
			for range 200_000 {
				_, _ = unix.Write(w.files.Call, []byte{1, 0, 0, 0, 0, 0, 0, 0})
			}
		}),
		queueDeed("it takes its own wake-ups", func(w *worker) {
			_ = unix.SetNonblock(w.files.Kick, true)
			for range 10_000 {
				_, _ = unix.Read(w.files.Kick, make([]byte, 8))
				_, _ = unix.Write(w.files.Kick, []byte{1, 0, 0, 0, 0, 0, 0, 0})
			}
		}),
	}
}
