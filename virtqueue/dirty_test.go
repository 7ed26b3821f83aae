// SPDX-License-Identifier: Apache-2.0

package virtqueue_test

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// TestEveryChangedPageIsMarked compares the log with what really changed in the guest's memory.
func TestEveryChangedPageIsMarked(t *testing.T) {
	for _, eventIdx := range []bool{false, true} {
		const size = 1 << 20
		g := vt.NewGuest(t, vt.Span{Addr: 0x40000, Size: size})
		d := vt.NewDriver(g, 1024, eventIdx) // rings of several pages
		fd := vt.MemFD(t, 4096)
		log, err := dirtylog.Open(fd, 0, (0x40000+size)/4096/8)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		q, err := virtqueue.New(g.Mem, virtqueue.Config{
			Size: 1024, Desc: d.Desc, Avail: d.Avail, Used: d.Used, EventIdx: eventIdx,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		buffer := g.Alloc(3*4096, 4096)
		offer := func() { // fills most of the ring
			for range 900 {
				chain := vt.Desc{Addr: buffer + 4000, Len: 4196, Flags: vt.Write}
				if _, err := d.Add(chain); err != nil {
					t.Fatal(err)
				}
			}
		}
		offer()
		for _, logging := range []bool{false, true, true} {
			if logging {
				g.Mem.Dirty().Set(log)
			}
			clearLog(t, fd)
			before := g.Read(0x40000, size)
			use(t, q)
			after := g.Read(0x40000, size)
			bitmap := make([]byte, 4096)
			if _, err := unix.Pread(fd, bitmap, 0); err != nil {
				t.Fatal(err)
			}
			marked := 0
			for p := uint64(0); p < size/4096; p++ {
				page := 0x40000/4096 + p
				is := bitmap[page/8]>>(page%8)&1 != 0
				changed := !bytes.Equal(before[p*4096:][:4096], after[p*4096:][:4096])
				if changed && logging && !is || is && !logging {
					t.Errorf("event index %v, logging %v: page %#x: changed %v, marked %v",
						eventIdx, logging, page, changed, is)
				}
				if is {
					marked++
				}
			}
			if marked > 7 {
				t.Errorf("%d pages are marked, for a used ring of 3 and buffers of 3", marked)
			}
			for _, _, ok := d.Reap(); ok; _, _, ok = d.Reap() {
			}
			offer()
		}
	}
}

// use takes and returns what there is, and changes all else that the device may.
func use(t *testing.T, q *virtqueue.Queue) {
	t.Helper()
	if err := q.DisableKick(); err != nil {
		t.Fatal(err)
	}
	n := byte(q.Base() / 256)
	for c, ok, err := q.Pop(); ok || err != nil; c, ok, err = q.Pop() {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if _, err := c.WriteAt([]byte{n, n}, int64(n)); err != nil {
			t.Fatal(err)
		}
		if err := q.Push(c.Head(), 2); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.EnableKick(); err != nil {
		t.Fatal(err)
	}
}

func clearLog(t *testing.T, fd int) {
	t.Helper()
	if _, err := unix.Pwrite(fd, make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
}
