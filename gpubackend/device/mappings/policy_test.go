// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mapleave/mapleavetest"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/vouchers/voucherstest"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Pages of the guest with a driver.
const (
	driversOwn = 40 // the first ones
	arenaPage  = 41
	roPage     = 43
	rwPage     = 44 // and the one after the next
	otherPage  = 48
	ringPage   = 50
	nobodys    = 60
)

// asks is a worker of channel 3 whose guest's driver says what is whose.
func (r *rig) asks(t *testing.T) (*workers.Worker, *mapleavetest.Asker, *voucherstest.Driver) {
	t.Helper()
	mem, err := r.guest.Mem.Slice(0, guestPages*page)
	if err != nil {
		t.Fatal(err)
	}
	d := voucherstest.New(t, mem, 0, driversOwn*page)
	if d.Root == 0 {
		d.Root = d.Page() // 0 is nowhere
	}
	run := func(n uint64) wire.Run { return wire.Run{Address: n * page, Bytes: page} }
	for channel := range 5 {
		d.Records(channel)
	}
	d.Arena(3, 1, []wire.Run{run(arenaPage)})
	d.Vouch(3, 2, 0, []wire.Run{run(roPage)})
	d.Vouch(3, 3, wire.MapFlagWrite, []wire.Run{run(rwPage), run(rwPage + 2)})
	d.Vouch(4, 4, wire.MapFlagWrite, []wire.Run{run(otherPage)})
	r.root.Store(d.Root)
	r.RAM.Put(r.guest.Mem)
	a := mapleavetest.New(t)
	w := r.worker()
	r.confined(w, a.Listener, "")
	return w, a, d
}

// by maps so many pages of the guest by a reason.
func by(x vouchers.Reason, n, pages uint64, write bool) mapleavetest.Attempt {
	run := guestmem.Run{FD: mapleavetest.From, ReadFD: mapleavetest.From, Right: x.Right()}
	prot, fd, flags := run.File(write)
	return mapleavetest.Attempt{Length: uintptr(pages * page), Prot: uintptr(prot),
		Flags: uintptr(flags), FD: uintptr(fd), Offset: uintptr(n * page)}
}

// TestOnlyByRight: a worker maps what its guest's driver says is its channel's, for that reason.
func TestOnlyByRight(t *testing.T) {
	r := newRig(t)
	w, a, d := r.asks(t)
	w.Serve(3, workers.Program{})
	w.HasRings(&handover.Queue{Size: 64, Desc: ringPage * page, Avail: (ringPage + 1) * page,
		Used: (ringPage + 2) * page})
	reason := func(k vouchers.Kind, chain, i uint32) vouchers.Reason {
		return vouchers.Reason{Kind: k, Chain: chain, Index: i}
	}
	at := func(address uint64) uint64 { return address / page }
	headers, records := at(d.Header(3, 1)), at(d.Records(3))
	list := at(d.Get(d.Header(3, 2) + wire.ChainHeaderListOffset))
	const read, write = false, true
	for _, x := range []struct {
		name  string
		call  mapleavetest.Attempt
		allow bool
	}{
		{"headers", by(reason(vouchers.Headers, 0, 0), headers, 1, read), true},
		{"headers, to write", by(reason(vouchers.Headers, 0, 0), headers, 1, write), false},
		{"another's headers", by(reason(vouchers.Headers, 0, 0), at(d.Header(4, 1)), 1, read),
			false},
		{"the root", by(reason(vouchers.Headers, 0, 0), at(d.Root), 1, read), false},
		{"what leads to headers", by(reason(vouchers.Headers, 0, 0), at(d.Exposed(3)), 1, read),
			false},
		{"records", by(reason(vouchers.Records, 0, 0), records, 1, write), true},
		{"another's records", by(reason(vouchers.Records, 0, 0), at(d.Records(4)), 1, write),
			false},
		{"records as headers", by(reason(vouchers.Headers, 0, 0), records, 1, read), false},
		{"headers as records", by(reason(vouchers.Records, 0, 0), headers, 1, write), false},
		{"a list", by(reason(vouchers.Lists, 2, 0), list, 1, read), true},
		{"a list, to write", by(reason(vouchers.Lists, 2, 0), list, 1, write), false},
		{"another's list", by(reason(vouchers.Lists, 4, 0),
			at(d.Get(d.Header(4, 4)+wire.ChainHeaderListOffset)), 1, read), false},
		{"the arena", by(reason(vouchers.Arena, 0, 0), arenaPage, 1, write), true},
		{"behind the arena", by(reason(vouchers.Arena, 0, 0), arenaPage, 2, write), false},
		{"the arena as pages", by(reason(vouchers.Pages, 1, 0), arenaPage, 1, write), false},
		{"pages", by(reason(vouchers.Pages, 3, 0), rwPage, 1, write), true},
		{"the next run", by(reason(vouchers.Pages, 3, 1), rwPage+2, 1, write), true},
		{"between runs", by(reason(vouchers.Pages, 3, 0), rwPage+1, 1, write), false},
		{"by another run", by(reason(vouchers.Pages, 3, 1), rwPage, 1, write), false},
		{"by no run", by(reason(vouchers.Pages, 3, 2), rwPage, 1, read), false},
		{"pages to read", by(reason(vouchers.Pages, 2, 0), roPage, 1, read), true},
		{"the same, to write", by(reason(vouchers.Pages, 2, 0), roPage, 1, write), false},
		{"another's pages", by(reason(vouchers.Pages, 4, 0), otherPage, 1, read), false},
		{"rings", by(reason(vouchers.Rings, 0, 0), ringPage+2, 1, write), true},
		{"behind rings", by(reason(vouchers.Rings, 0, 0), ringPage+3, 1, write), false},
		{"by no reason", by(vouchers.Reason{}, headers, 1, read), false},
		{"by an unknown one", by(reason(100, 0, 0), headers, 1, read), false},
		{"nobody's", by(reason(vouchers.Pages, 3, 0), nobodys, 1, read), false},
		{"all", by(reason(vouchers.Pages, 3, 0), 0, guestPages, read), false},
	} {
		got := <-a.Try(x.call)
		if x.allow && got.Err != nil || !x.allow && !errors.Is(got.Err, unix.EACCES) {
			t.Errorf("%s: %v", x.name, got.Err)
		}
	}
	if err := unix.Close(mapleavetest.From); err != nil {
		t.Error(err)
	}
	if r.said("install the guest package") != 0 {
		t.Error("it is said that all may be mapped")
	}
}

// TestNoChannel: a worker without a channel has no pages.
func TestNoChannel(t *testing.T) {
	r := newRig(t)
	_, a, d := r.asks(t)
	got := <-a.Try(by(vouchers.Reason{Kind: vouchers.Headers}, d.Header(3, 1)/page, 1, false))
	if !errors.Is(got.Err, unix.EACCES) || r.said(errNoChannel.Error()) != 1 {
		t.Error(got.Err)
	}
}

// TestRingsThatArentKnown: a worker waits for them until it ends.
func TestRingsThatArentKnown(t *testing.T) {
	r := newRig(t)
	w, a, _ := r.asks(t)
	w.Serve(3, workers.Program{})
	rings := by(vouchers.Reason{Kind: vouchers.Rings}, ringPage, 1, true)
	waits := a.Try(rings)
	select {
	case got := <-waits:
		t.Errorf("nobody has said where they are: %v", got.Err)
	case <-time.After(50 * time.Millisecond):
	}
	w.HasRings(&handover.Queue{Size: 1, Desc: ringPage * page, Avail: ringPage * page,
		Used: ringPage * page})
	if got := <-waits; got.Err != nil {
		t.Error(got.Err)
	}
	if err := unix.Close(mapleavetest.From); err != nil {
		t.Error(err)
	}
	ends := r.worker()
	ends.Kill()
	if got := ends.AwaitRings(); got != nil {
		t.Errorf("rings %v of one that has ended", got)
	}
}

// TestDriverWithoutVouchers: its workers may map all of the VM's memory, and that is said once.
func TestDriverWithoutVouchers(t *testing.T) {
	r := newRig(t)
	r.RAM.Put(r.guest.Mem)
	a := mapleavetest.New(t)
	r.confined(r.worker(), a.Listener, "")
	for n := range uint64(2) {
		if got := <-a.Try(by(vouchers.Reason{}, nobodys+n, 1, true)); got.Err != nil {
			t.Error(got.Err)
		}
	}
	if err := unix.Close(mapleavetest.From); err != nil {
		t.Error(err)
	}
	if n := r.said("install the guest package"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
}
