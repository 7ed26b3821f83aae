// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// mapped are the pages of the guest's memory that the queue has mapped, with their permissions.
func (r *rig) mapped() map[uint64]string {
	r.t.Helper()
	var file unix.Stat_t
	if err := unix.Fstat(r.guest.FDs[0], &file); err != nil {
		r.t.Fatal(err)
	}
	whole, err := r.guest.Mem.Slice(0, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	own := guestmem.Addr(whole)
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		r.t.Fatal(err)
	}
	pages := map[uint64]string{}
	for line := range strings.Lines(string(text)) {
		var from, to, offset, inode uint64
		var mode, device string
		if _, err := fmt.Sscanf(line, "%x-%x %s %x %s %d", &from, &to, &mode, &offset, &device,
			&inode); err != nil || inode != file.Ino || !strings.Contains(line, "memfd:guest") ||
			from == uint64(own) {
			continue
		}
		for ; from < to; from, offset = from+pageSize, offset+pageSize {
			pages[offset] = mode
		}
	}
	return pages
}

// TestTouchesOnlyExposedPages: a worker maps its rings and its page of records to write, headers
// and lists to read, and nothing else of the guest's memory by itself.
func TestTouchesOnlyExposedPages(t *testing.T) {
	r := newRig(t)
	r.unmapLater()
	r.offerArena(arenaRun)
	var runs []wire.Run
	for i := range uint64(2*wire.RunsPerList + 1) {
		runs = append(runs, wire.Run{Address: 0x200000 + 8192*i%0x100000, Bytes: 4096})
	}
	h := wire.ChainHeader{Type: wire.ChainMap, Id: 5, Bytes: 4096, Flags: wire.MapFlagOneshot}
	r.chain(chainsAt+0x4000, h, runs...)
	r.take()
	r.offer(8)
	r.offer(9)
	m := r.Find(5)
	if r.arena == nil || m == nil || !slices.Equal(m.Runs, runs) || !r.has[8] || !r.has[9] {
		t.Fatalf("arena %v, map %+v, kept %v", r.arena, m, r.has)
	}
	r.Return(m)
	r.reap()
	r.Return(r.Find(9))
	if ids := r.listen(); !slices.Equal(ids, []uint32{9}) {
		t.Errorf("the guest is told of %v", ids)
	}
	if s := r.Saved(); len(s.Maps) != 1 {
		t.Errorf("%+v", s)
	}
	// Arguments in the program's pages don't stay mapped, whether they are read or written.
	const argumentAt = 0x3f0ffe
	answer := make([]byte, 5000)
	err := errors.Join(r.Write([]byte("answer"), []guestmem.Extent{{Addr: argumentAt, Bytes: 6}}),
		r.Read(answer, []guestmem.Extent{{Addr: argumentAt, Bytes: 5000}}))
	if err != nil || !strings.HasPrefix(string(answer), "answer") {
		t.Errorf("%q, %v", answer[:6], err)
	}
	want := map[uint64]string{}
	for page := r.driver.Desc &^ (pageSize - 1); page <= r.driver.Used; page += pageSize {
		want[page] = "rw-s"
	}
	want[recordsAt] = "rw-s"
	for page, mode := range r.mapped() {
		inArena := page >= arenaRun.Address && page < arenaRun.Address+arenaRun.Bytes
		read := page >= eventAt && page < eventAt+0x10000 && mode == "r--s"
		if want[page] != mode && !inArena && !read {
			t.Errorf("page %#x is mapped %s", page, mode)
		}
		delete(want, page)
	}
	if len(want) > 0 {
		t.Errorf("not mapped: %v", want)
	}
}
