// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/vouchers/voucherstest"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

const driversOwn = 1 << 20

type driver = voucherstest.Driver

// newDriver is for a guest of one region. The first MiB of its memory is the driver's own.
func newDriver(tb testing.TB, n int) (*driver, guestmem.Region) {
	mem, region := oneRegion(tb, n)
	return voucherstest.New(tb, mem, guestBase, driversOwn), region
}

// vouched is a worker of a channel whose driver vouches for pages.
func (h *host) vouched(channel int, root uint64) *Client {
	h.tb.Helper()
	c, err := NewClient(h.connect(channel, root))
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(func() { _ = c.Close() })
	return c
}

// pages are so many pages of a program's, in random order.
func pages(r *rand.Rand, n, of int) (runs []wire.Run) {
	for _, i := range r.Perm(of)[:n] {
		runs = append(runs, wire.Run{Address: guestBase + driversOwn + uint64(i)*4096, Bytes: 4096})
	}
	return runs
}

// sliced are the runs of a place.
func sliced(all []wire.Run, p moves.Place) (runs []wire.Run) {
	for i, left := int(p.Run), p.Bytes; left > 0; i++ {
		n := min(all[i].Bytes-p.Offset, left)
		runs = append(runs, wire.Run{Address: all[i].Address + p.Offset, Bytes: n})
		left, p.Offset = left-n, 0
	}
	return runs
}

// TestVouchedAsAnOracleSays: random places of maps, some of them longer than one request, are
// copied as the same runs would be without vouchers, and no use is left.
func TestVouchedAsAnOracleSays(t *testing.T) {
	const many = maxRuns + 7
	d, region := newDriver(t, driversOwn+many*4096)
	h := startHost(t, region)
	c, plain := h.vouched(5, d.Root), h.client()
	r := rand.New(rand.NewPCG(3, 4))
	for n, count := range []int{1, 2, 300, many} {
		runs := pages(r, count, many)
		number := []uint32{1, 2, wire.HeadersPerPage, wire.HeadersPerPage + 1}[n]
		d.Vouch(5, number, wire.MapFlagWrite, runs)
		id, mem, _ := attach(t, c, count*4096)
		other, want, _ := attach(t, plain, count*4096)
		fill(mem, 1)
		copy(want, mem)
		fill(d.Mem[driversOwn:], 2)
		for range 5 {
			p := moves.Place{Run: uint32(r.IntN(count)), Offset: uint64(r.IntN(4096))}
			p.Bytes = 1 + r.Uint64N(uint64(count-int(p.Run))*4096-p.Offset)
			m := moves.Move{Staging: id, Runs: sliced(runs, p), Voucher: number,
				Places: []moves.Place{p}, ToDevice: r.IntN(2) == 0}
			if p.Bytes > 4096 && p.Offset == 0 { // in two places
				a, b := p, p
				a.Bytes = 4096
				b.Run, b.Bytes = b.Run+1, b.Bytes-4096
				m.Places = []moves.Place{a, b}
			}
			before := bytes.Clone(d.Mem[driversOwn:])
			if err := move(t, c, &m); err != nil {
				t.Fatalf("%d runs, %+v: %v", count, p, err)
			}
			after := bytes.Clone(d.Mem[driversOwn:])
			copy(d.Mem[driversOwn:], before)
			m.Voucher, m.Places, m.Staging = 0, nil, other
			if err := move(t, plain, &m); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(mem, want) || !bytes.Equal(after, d.Mem[driversOwn:]) {
				t.Fatalf("%d runs, %+v: other bytes than without vouchers", count, p)
			}
			if s := atomic.LoadUint32(d.State(5, number)); s != wire.VoucherStateValid {
				t.Fatalf("%d runs, %+v: state %d afterwards", count, p, s)
			}
		}
	}
}

// lie is a request of a worker that was taken over.
type lie struct {
	voucher  uint32
	places   []moves.Place
	toDevice bool
	prepare  func(d *driver)
}

func lies() map[string]lie {
	one := []moves.Place{{Bytes: 4096}}
	at := func(offset uint64) []moves.Place { return []moves.Place{{Offset: offset, Bytes: 1}} }
	header := func(d *driver) uint64 { return d.Header(1, 1) }
	list := func(d *driver) uint64 { return header(d) + wire.ChainHeaderListOffset }
	return map[string]lie{
		"runs of its own":              {places: one, toDevice: true},
		"pages of nobody":              {voucher: 9, places: one, toDevice: true},
		"a voucher of another channel": {voucher: 3, places: one, toDevice: true},
		"a number without a page":      {voucher: 70_000, places: one, toDevice: true},
		"a number beyond all":          {voucher: 1 << 31, places: one, toDevice: true},
		"a run too far":                {voucher: 1, places: []moves.Place{{Run: 2, Bytes: 1}}},
		"past the last run":            {voucher: 1, places: []moves.Place{{Bytes: 8193}}},
		"past the end of a run":        {voucher: 1, places: at(4096)},
		"far past the end of a run":    {voucher: 1, places: at(1<<48 - 1)},
		"to pages pinned to be read":   {voucher: 2, places: one},
		"a voucher that is over": {voucher: 1, places: one, prepare: func(d *driver) {
			atomic.StoreUint32(d.State(1, 1), 0)
		}},
		"one with a use, that is over": {voucher: 1, places: one, prepare: func(d *driver) {
			atomic.StoreUint32(d.State(1, 1), oneUse)
		}},
		"as many uses as can be counted": {voucher: 1, places: one, prepare: func(d *driver) {
			atomic.StoreUint32(d.State(1, 1), 1<<32-1)
		}},
		// The driver is the guest's own, but mustn't harm the mover.
		"a directory outside memory": {voucher: 1 + wire.DirectoryPages*wire.HeadersPerPage,
			places: one, prepare: func(d *driver) { d.Put(d.Directory(1)+8, 1<<62) }},
		"a list outside memory": {voucher: 1, places: one, prepare: func(d *driver) {
			d.Put(list(d), ^uint64(0))
		}},
		"a list at the end of memory": {voucher: 1, places: one, prepare: func(d *driver) {
			d.Put(list(d), guestBase+uint64(len(d.Mem))-16)
		}},
		"a page of vouchers outside memory": {voucher: 1, places: one, prepare: func(d *driver) {
			d.Put(d.Get(d.Directory(1)), 1<<62)
		}},
		"a page of vouchers at an odd address": {voucher: 1, places: one, prepare: func(d *driver) {
			d.Put(d.Get(d.Directory(1)), guestBase+1)
		}},
		"too many runs": {voucher: 1, places: one, prepare: func(d *driver) {
			binary.LittleEndian.PutUint32(d.At(header(d)+wire.ChainHeaderRunsOffset),
				wire.RunsPerMap+1)
		}},
		"no map": {voucher: 1, places: one, prepare: func(d *driver) {
			binary.LittleEndian.PutUint32(d.At(header(d)), wire.ChainArena)
		}},
		"runs without bytes": {voucher: 1, places: one, prepare: func(d *driver) {
			clear(d.At(d.Get(list(d)))[:32])
		}},
	}
}

// TestOnlyWhatTheDriverVouchesFor is copied, whatever a worker asks for: nothing is written, the
// states are as they were, and the next request is served.
func TestOnlyWhatTheDriverVouchesFor(t *testing.T) {
	for name, x := range lies() {
		t.Run(name, func(t *testing.T) {
			const size = driversOwn + 1<<20
			d, region := newDriver(t, size)
			h := startHost(t, region)
			program := uint64(guestBase + driversOwn)
			two := []wire.Run{
				{Address: program, Bytes: 4096}, {Address: program + 8192, Bytes: 4096},
			}
			d.Vouch(1, 1, wire.MapFlagWrite, two)
			d.Vouch(1, 2, 0, two)
			d.Vouch(2, 3, wire.MapFlagWrite, []wire.Run{{Address: program + 16384, Bytes: 4096}})
			d.Vouch(1, 300, wire.MapFlagWrite, []wire.Run{{Address: program + 1<<19, Bytes: 4096}})
			if x.prepare != nil {
				x.prepare(d)
			}
			c := h.vouched(1, d.Root)
			id, mem, _ := attach(t, c, 1<<20)
			fill(mem, 1)
			guest, device := bytes.Clone(d.Mem), bytes.Clone(mem)
			runs := []wire.Run{{Address: program + 1<<18, Bytes: x.places[0].Bytes}}
			err := move(t, c, &moves.Move{Staging: id, Voucher: x.voucher, Places: x.places,
				Runs: runs, ToDevice: x.toDevice})
			if !errors.Is(err, ErrVoucher) {
				t.Errorf("%v, want %v", err, ErrVoucher)
			}
			if !bytes.Equal(guest, d.Mem) || !bytes.Equal(device, mem) {
				t.Error("something was written")
			}
			err = move(t, c, &moves.Move{Staging: id, Voucher: 300, Runs: runs[:1],
				Places: []moves.Place{{Bytes: min(4096, runs[0].Bytes)}}})
			if err != nil {
				t.Errorf("the next request: %v", err)
			}
		})
	}
}

// TestVouchersOfADriverWithout are refused: it never said where they are.
func TestVouchersOfADriverWithout(t *testing.T) {
	d, region := newDriver(t, driversOwn+1<<20)
	c := startHost(t, region).client()
	id, _, _ := attach(t, c, 4096)
	runs := []wire.Run{{Address: guestBase + driversOwn, Bytes: 4096}}
	d.Vouch(0, 1, wire.MapFlagWrite, runs)
	m := &moves.Move{Staging: id, Runs: runs, Voucher: 1, Places: []moves.Place{{Bytes: 4096}}}
	if err := move(t, c, m); !errors.Is(err, ErrVoucher) {
		t.Error(err)
	}
}

// TestNothingIsExposed: where a driver says that its channels' pages are is no memory, or has none.
func TestNothingIsExposed(t *testing.T) {
	d, region := newDriver(t, driversOwn+1<<20)
	m := memoryOf(t, []guestmem.Region{region})
	d.Put(d.Root, 1<<62)
	for channel, root := range map[uint32]uint64{0: d.Root, 1: d.Root, 2: 1 << 62, 3: 1<<64 - 8,
		wire.MaxChannels: d.Root} {
		v := vouchers.Exposure{Root: root, Channel: channel}
		if _, s := beginVouched(v, m, 1); s != statusVoucher {
			t.Errorf("channel %d, %#x: status %d", channel, root, s)
		}
	}
}

// TestTheDriverKeepsPagesInUse: while a request is under way, the driver can't end its voucher.
func TestTheDriverKeepsPagesInUse(t *testing.T) {
	d, region := newDriver(t, driversOwn+1<<20)
	runs := []wire.Run{{Address: guestBase + driversOwn, Bytes: 4096}}
	d.Vouch(0, 1, wire.MapFlagWrite, runs)
	m := memoryOf(t, []guestmem.Region{region})
	u, s := beginVouched(vouchers.Exposure{Root: d.Root}, m, 1)
	if s != statusDone || atomic.CompareAndSwapUint32(d.State(0, 1), wire.VoucherStateValid, 0) {
		t.Fatalf("status %d, or the driver ended a voucher in use", s)
	}
	u.end(&dirtylog.Switch{})
	u.end(&dirtylog.Switch{}) // only once
	if !atomic.CompareAndSwapUint32(d.State(0, 1), wire.VoucherStateValid, 0) {
		t.Errorf("state %d after the use", *d.State(0, 1))
	}
}

// TestUsesAreLogged: a voucher is guest memory that is written to, whose last state a migration
// must take along.
func TestUsesAreLogged(t *testing.T) {
	d, region := newDriver(t, driversOwn+1<<20)
	h := startHost(t, region)
	runs := []wire.Run{{Address: guestBase + driversOwn, Bytes: 4096}}
	d.Vouch(0, 1, 0, runs)
	bits, fd := mapped(t, 256<<10, unix.F_SEAL_SHRINK)
	l, err := dirtylog.Open(fd, 0, 256<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h.log(l)
	defer h.log(nil)
	c := h.vouched(0, d.Root)
	id, _, _ := attach(t, c, 4096)
	m := &moves.Move{Staging: id, Runs: runs, Voucher: 1, Places: []moves.Place{{Bytes: 4096}},
		ToDevice: true}
	if err := move(t, c, m); err != nil {
		t.Fatal(err)
	}
	page := d.Header(0, 1) / 4096
	if bits[page/8]&(1<<(page%8)) == 0 {
		t.Error("the voucher's page isn't marked")
	}
}
