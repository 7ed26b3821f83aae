// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// log has the mover mark its writes, or no more, while it runs.
func (h *host) log(l *dirtylog.Log) {
	h.tb.Helper()
	m := &handover.Message{Kind: handover.KindLog}
	if err := h.control.Send(m, m.GiveLog(l, nil)); err != nil {
		h.tb.Fatal(err)
	}
	h.expect(handover.KindLogged)
}

// TestCopiesToTheGuestAreLogged, page by page, in both regions, and nothing else is.
func TestCopiesToTheGuestAreLogged(t *testing.T) {
	const n, pages = 2 << 20, guestBase / 4096
	mem, regions := guest(t, n)
	h := startHost(t, regions...)
	c := h.client()
	id, staging, _ := attach(t, c, n)
	fill(staging, 1)
	bits, fd := mapped(t, 256<<10, unix.F_SEAL_SHRINK)
	l, err := dirtylog.Open(fd, 0, 256<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	runs := []wire.Run{
		{Address: guestBase + 100, Bytes: 8000},             // two pages
		{Address: guestBase + n/2 - 1, Bytes: 2},            // the end of one region
		{Address: guestBase + n/2 + 10*4096, Bytes: 4096},   // one
		{Address: guestBase + n - 300*4096, Bytes: 1 << 19}, // many
	}
	toGuest := &moves.Move{ID: 1, Staging: id, Runs: runs}
	toDevice := &moves.Move{ID: 2, Staging: id, Runs: runs, ToDevice: true}
	for _, logging := range []bool{false, true, false} {
		if logging {
			h.log(l)
		} else {
			h.log(nil)
		}
		clear(bits)
		if err := move(t, c, toDevice); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bits, make([]byte, len(bits))) {
			t.Error("a copy from the guest is logged")
		}
		fill(staging, 2)
		before := view(mem, guestBase, n)
		if err := move(t, c, toGuest); err != nil {
			t.Fatal(err)
		}
		after := view(mem, guestBase, n)
		for p := range n / 4096 {
			changed := !bytes.Equal(before[p*4096:][:4096], after[p*4096:][:4096])
			is := bits[(pages+p)/8]>>((pages+p)%8)&1 != 0
			if is != (changed && logging) {
				t.Errorf("logging %v: page %d: changed %v, marked %v", logging, p, changed, is)
			}
		}
		clear(mem)
	}
}
