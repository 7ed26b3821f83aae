// SPDX-License-Identifier: Apache-2.0

package vouchers_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/vouchers/voucherstest"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

const (
	base = 1 << 30
	own  = 1 << 20 // bytes of the driver's own
	all  = 4 << 20
	page = 4096
)

// memory is a guest's of one region.
type memory []byte

func (m memory) At(address, n uint64) []byte {
	if address < base || address-base > uint64(len(m)) || n > uint64(len(m))-(address-base) {
		return nil
	}
	return m[address-base:][:n:n]
}

// newDriver is one in a guest's memory.
func newDriver(t testing.TB) (*voucherstest.Driver, memory) {
	mem := make([]byte, all)
	return voucherstest.New(t, mem, base, own), mem
}

// right is what an oracle says of a reason.
type right struct {
	runs  []wire.Run
	write bool
}

// scene is a guest whose driver has two channels, and what each reason of one of them gives, by an
// oracle that knows what the driver has done.
type scene struct {
	*voucherstest.Driver
	memory memory
	rights map[vouchers.Reason]right
}

const channel = 5

func newScene(t testing.TB) *scene {
	d, mem := newDriver(t)
	s := &scene{d, mem, map[vouchers.Reason]right{}}
	random := rand.New(rand.NewPCG(7, 8))
	runs := func(n int) (list []wire.Run) {
		for range n {
			list = append(list, wire.Run{Address: base + own + page*random.Uint64N((all-own)/page),
				Bytes: page * (1 + random.Uint64N(3))})
		}
		return list
	}
	arena := runs(3)
	d.Arena(channel, 1, arena)
	s.add(vouchers.Arena, 1, arena, true)
	for n, count := range map[uint32]int{2: 1, 3: 256, 4: 257, 70: 600} {
		list := runs(count)
		d.Vouch(channel, n, uint32(n%2)*wire.MapFlagWrite, slices.Clone(list))
		s.add(vouchers.Pages, n, list, n%2 != 0)
	}
	d.Vouch(channel, 7, wire.MapFlagWrite, runs(2)) // it is over
	atomic.StoreUint32(d.State(channel, 7), 0)
	d.Vouch(channel, 8, wire.MapFlagWrite, runs(2)) // it was over, and has a use
	atomic.StoreUint32(d.State(channel, 8), 2)
	d.Vouch(channel+1, 9, wire.MapFlagWrite, runs(2)) // another's
	d.Arena(channel+1, 10, runs(2))
	s.rights[vouchers.Reason{Kind: vouchers.Records}] = right{[]wire.Run{
		{Address: d.Records(channel), Bytes: page}}, true}
	var headers []wire.Run
	for _, n := range []uint32{1, 70} {
		headers = append(headers,
			wire.Run{Address: d.Header(channel, n) &^ (page - 1), Bytes: page})
	}
	s.rights[vouchers.Reason{Kind: vouchers.Headers}] = right{headers, false}
	return s
}

// add is what a chain gives.
func (s *scene) add(k vouchers.Kind, n uint32, runs []wire.Run, write bool) {
	for i, r := range runs {
		x := vouchers.Reason{Kind: k, Chain: n, Index: uint32(i)}
		if k == vouchers.Arena {
			x.Chain = 0
		}
		s.rights[x] = right{[]wire.Run{r}, write}
	}
	list := s.Get(s.Header(channel, n) + wire.ChainHeaderListOffset)
	lists := uint64(len(runs)+wire.RunsPerList-1) / wire.RunsPerList
	if lists > 1 {
		s.rights[vouchers.Reason{Kind: vouchers.Table, Chain: n}] = right{[]wire.Run{
			{Address: list, Bytes: 8 * lists}}, false}
	}
	for i := range lists {
		count := min(uint64(len(runs))-i*wire.RunsPerList, wire.RunsPerList)
		r := wire.Run{Address: list, Bytes: count * wire.RunSize}
		if lists > 1 {
			r.Address = s.Get(list + 8*i)
		}
		s.rights[vouchers.Reason{Kind: vouchers.Lists, Chain: n, Index: uint32(i)}] = right{
			[]wire.Run{r}, false}
	}
}

// given is what a reason gives by the package.
func (s *scene) given(x vouchers.Reason) (r right) {
	c := vouchers.Exposure{Root: s.Root, Channel: channel}
	err := c.Allows(s.memory, x, false, func(run wire.Run) bool {
		r.runs = append(r.runs, run)
		return false
	})
	if !errors.Is(err, vouchers.ErrReason) {
		panic("nothing was wanted, and it is allowed")
	}
	r.write = c.Allows(s.memory, x, true, func(wire.Run) bool { return true }) == nil
	return r
}

// TestReasonsAsAnOracleSays: each reason of each kind gives what the driver has said, and no other.
func TestReasonsAsAnOracleSays(t *testing.T) {
	s := newScene(t)
	seen := 0
	indexes := []uint32{700, 16383, 1<<32 - 1}
	for i := range uint32(600) {
		indexes = append(indexes, i)
	}
	for kind := range vouchers.Kind(10) {
		for _, chain := range []uint32{0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 64, 70, 140, 1<<24 - 1} {
			for _, index := range indexes {
				x := vouchers.Reason{Kind: kind, Chain: chain, Index: index}
				want, is := s.rights[x]
				if !is { // kinds that have but one ignore what they don't need
					switch kind {
					case vouchers.Records, vouchers.Headers:
						want = s.rights[vouchers.Reason{Kind: kind}]
					case vouchers.Table:
						want = s.rights[vouchers.Reason{Kind: kind, Chain: chain}]
					case vouchers.Arena:
						want = s.rights[vouchers.Reason{Kind: kind, Index: index}]
					}
				} else {
					seen++
				}
				if got := s.given(x); !slices.Equal(got.runs, want.runs) ||
					got.write != want.write {
					t.Fatalf("%+v: %d runs, to write: %t; want %d, %t", x, len(got.runs), got.write,
						len(want.runs), want.write)
				}
			}
		}
	}
	if seen != len(s.rights) {
		t.Errorf("%d of %d rights were seen", seen, len(s.rights))
	}
}

// TestWhatIsAskedFor: has is asked until it says yes, and then the reason is right, but never to
// write what may only be read.
func TestWhatIsAskedFor(t *testing.T) {
	s := newScene(t)
	c := vouchers.Exposure{Root: s.Root, Channel: channel}
	for x, want := range s.rights {
		last := want.runs[len(want.runs)-1]
		has := func(r wire.Run) bool { return r == last }
		if err := c.Allows(s.memory, x, false, has); err != nil {
			t.Errorf("%+v: %v", x, err)
		}
		if err := c.Allows(s.memory, x, true, has); want.write != (err == nil) ||
			err != nil && !errors.Is(err, vouchers.ErrReadOnly) {
			t.Errorf("%+v, to write: %v", x, err)
		}
	}
}

// TestRights: reasons come back as they were from what mmap is given.
func TestRights(t *testing.T) {
	for _, x := range []vouchers.Reason{
		{}, {Kind: vouchers.Pages, Chain: 196608, Index: 16383},
		{Kind: 255, Chain: 1<<24 - 1, Index: 1<<32 - 1},
	} {
		if got := vouchers.ReasonOf(x.Right()); got != x {
			t.Errorf("%+v comes back as %+v", x, got)
		}
	}
	seen := map[guestmem.Right]bool{}
	for _, r := range []guestmem.Right{vouchers.Rights().Read, vouchers.Rights().Write,
		vouchers.Rights().Slice} {
		if seen[r] || r == 0 {
			t.Errorf("%x is no right of its own", r)
		}
		seen[r] = true
	}
}

// TestDriversThatLie: what makes no sense gives no right, and harms nobody.
func TestDriversThatLie(t *testing.T) {
	mine := vouchers.Reason{Kind: vouchers.Pages, Chain: 1}
	list := vouchers.Reason{Kind: vouchers.Lists, Chain: 1}
	for name, x := range map[string]struct {
		reason vouchers.Reason
		lie    func(d *voucherstest.Driver)
	}{
		"records nowhere": {vouchers.Reason{Kind: vouchers.Records}, func(d *voucherstest.Driver) {
			d.Put(d.Exposed(0)+wire.ExposedRecordsOffset, 0)
		}},
		"no arena": {vouchers.Reason{Kind: vouchers.Arena}, func(*voucherstest.Driver) {}},
		"an arena that is a map": {vouchers.Reason{Kind: vouchers.Arena},
			func(d *voucherstest.Driver) {
				d.Put(d.Exposed(0)+wire.ExposedArenaOffset, d.Header(0, 1))
			}},
		"an arena nowhere": {vouchers.Reason{Kind: vouchers.Arena}, func(d *voucherstest.Driver) {
			d.Put(d.Exposed(0)+wire.ExposedArenaOffset, 1<<63)
		}},
		"a second arena": {list, func(d *voucherstest.Driver) {
			binary.LittleEndian.PutUint32(d.At(d.Header(0, 1)), wire.ChainArena)
		}},
		"an arena among the maps": {mine, func(d *voucherstest.Driver) {
			d.Arena(0, 1, []wire.Run{{Address: base, Bytes: page}})
		}},
		"an event": {mine, func(d *voucherstest.Driver) {
			binary.LittleEndian.PutUint32(d.At(d.Header(0, 1)), wire.ChainEvent)
		}},
		"no runs": {list, func(d *voucherstest.Driver) {
			binary.LittleEndian.PutUint32(d.At(d.Header(0, 1)+wire.ChainHeaderRunsOffset), 0)
		}},
		"too many runs": {list, func(d *voucherstest.Driver) {
			binary.LittleEndian.PutUint32(d.At(d.Header(0, 1)+wire.ChainHeaderRunsOffset),
				wire.RunsPerMap+1)
		}},
		"a list at 0": {list, func(d *voucherstest.Driver) {
			d.Put(d.Header(0, 1)+wire.ChainHeaderListOffset, 0)
		}},
		"a list beyond memory": {mine, func(d *voucherstest.Driver) {
			d.Put(d.Header(0, 1)+wire.ChainHeaderListOffset, base+all-8)
		}},
		"headers at an odd address": {mine, func(d *voucherstest.Driver) {
			d.Put(d.Get(d.Directory(0)), base+own+1)
		}},
		"headers beyond memory": {mine, func(d *voucherstest.Driver) {
			d.Put(d.Get(d.Directory(0)), ^uint64(63))
		}},
		"headers inside a page": {vouchers.Reason{Kind: vouchers.Headers},
			func(d *voucherstest.Driver) { d.Put(d.Get(d.Directory(0)), base+own+64) }},
		"directories beyond memory": {vouchers.Reason{Kind: vouchers.Headers},
			func(d *voucherstest.Driver) { d.Put(d.Directory(0), ^uint64(7)) }},
		"nothing exposed": {vouchers.Reason{Kind: vouchers.Records},
			func(d *voucherstest.Driver) { d.Put(d.Root, 0) }},
		"exposed beyond memory": {vouchers.Reason{Kind: vouchers.Headers},
			func(d *voucherstest.Driver) { d.Put(d.Root, ^uint64(0)) }},
	} {
		t.Run(name, func(t *testing.T) {
			d, mem := newDriver(t)
			d.Records(0)
			d.Vouch(0, 1, wire.MapFlagWrite, []wire.Run{{Address: base + own, Bytes: page}})
			x.lie(d)
			err := vouchers.Exposure{Root: d.Root}.Allows(mem, x.reason, false,
				func(wire.Run) bool { return true })
			if !errors.Is(err, vouchers.ErrReason) {
				t.Error(err)
			}
		})
	}
	d, mem := newDriver(t)
	for _, c := range []vouchers.Exposure{{}, {Root: d.Root, Channel: wire.MaxChannels},
		{Root: ^uint64(0) - 7, Channel: 1}} {
		for kind := range vouchers.Kind(10) {
			err := c.Allows(mem, vouchers.Reason{Kind: kind, Chain: 1}, false,
				func(wire.Run) bool { return true })
			if !errors.Is(err, vouchers.ErrReason) {
				t.Errorf("%+v, kind %d: %v", c, kind, err)
			}
		}
	}
}

// FuzzAllows: whatever is in memory, a reason gives only what a driver can say, and nothing panics.
func FuzzAllows(f *testing.F) {
	s := newScene(f)
	f.Add([]byte(s.memory[:16*page]), uint64(s.Root), uint64(vouchers.Reason{
		Kind: vouchers.Pages, Chain: 2}.Right()))
	f.Fuzz(func(t *testing.T, b []byte, root, by uint64) {
		x := vouchers.ReasonOf(guestmem.Right(by))
		c := vouchers.Exposure{Root: root, Channel: channel}
		asked := 0
		err := c.Allows(memory(b), x, x.Index%2 == 0, func(wire.Run) bool {
			asked++
			return asked > 100
		})
		if err == nil && (x.Kind != vouchers.Headers || x.Index%2 == 0) {
			t.Errorf("%+v gives %d ranges", x, asked)
		}
	})
}
