// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/patience"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// chain is an attack with a chain on the channel's queue.
func chain(name string, class int, h wire.ChainHeader, runs ...wire.Run) attack {
	return attack{"chain: " + name, class, func(_ *guest, c *channel) error {
		c.chain(10, h, runs...)
		time.Sleep(time.Millisecond)
		return nil
	}}
}

// rawChain is an attack with a chain that isn't well-formed.
func rawChain(name string, class int, list ...virtqueuetest.Desc) attack {
	return attack{"chain: " + name, class, func(_ *guest, c *channel) error {
		c.raw(list...)
		time.Sleep(time.Millisecond)
		return nil
	}}
}

func chainAttacks() []attack {
	mapHeader := wire.ChainHeader{Type: wire.ChainMap, Id: 9, Bytes: 4096}
	with := func(change func(*wire.ChainHeader)) wire.ChainHeader {
		h := mapHeader
		change(&h)
		return h
	}
	page := wire.Run{Address: 1 << 20, Bytes: 4096}
	loop := func(name string, next uint16, flags uint16) attack {
		return attack{"chain: " + name, 1, func(_ *guest, c *channel) error {
			d := c.queue().Driver
			d.SetDesc(40,
				virtqueuetest.Desc{Addr: 1 << 20, Len: 8, Flags: virtqueuetest.Next | flags,
					Next: next})
			d.SetDesc(41,
				virtqueuetest.Desc{Addr: 1 << 20, Len: 8, Flags: virtqueuetest.Next | flags,
					Next: 40})
			d.Offer(40)
			c.kick()
			time.Sleep(time.Millisecond)
			return nil
		}}
	}
	return []attack{
		chain("type 0", 21, wire.ChainHeader{}),
		chain("unknown type", 21, wire.ChainHeader{Type: 99}),
		chain("second arena", 25, wire.ChainHeader{Type: wire.ChainArena, Bytes: arenaBytes},
			wire.Run{Address: 1 << 20, Bytes: arenaBytes}),
		chain("MAP without runs", 5, mapHeader),
		chain("MAP of a run of 0 bytes", 5, mapHeader, wire.Run{Address: 1 << 20}),
		chain("MAP outside memory", 4, mapHeader, wire.Run{Address: guestBytes, Bytes: 4096}),
		chain("MAP across the end", 4, mapHeader,
			wire.Run{Address: guestBytes - 4096, Bytes: 8192}),
		chain("MAP wraps", 3, mapHeader, wire.Run{Address: ^uint64(0) - 4095, Bytes: 8192}),
		chain("MAP of 2^64-1 bytes", 3, mapHeader, wire.Run{Address: 0, Bytes: ^uint64(0)}),
		chain("MAP longer than its runs", 21, with(func(h *wire.ChainHeader) { h.Bytes = 4097 }),
			page),
		chain("MAP of 2^63 bytes", 21, with(func(h *wire.ChainHeader) { h.Bytes = 1 << 63 }), page),
		chain("MAP's offset beyond its runs", 21,
			with(func(h *wire.ChainHeader) { h.Offset = 8192 }), page),
		chain("MAP's offset 2^32-1", 7, with(func(h *wire.ChainHeader) { h.Offset = ^uint32(0) }),
			page),
		chain("MAP of an id in use", 23, with(func(h *wire.ChainHeader) { h.Id = 5 }), page),
		chain("MAP of more runs than it has", 8, with(func(h *wire.ChainHeader) { h.Runs = 3 }),
			page),
		chain("MAP of 16385 runs", 21, with(func(h *wire.ChainHeader) { h.Runs = 16385 }), page),
		chain("MAP of 2^32-1 runs", 7, with(func(h *wire.ChainHeader) { h.Runs = ^uint32(0) }),
			page),
		chain("MAP of overlapping runs", 25, with(func(h *wire.ChainHeader) { h.Bytes = 12288 }),
			page, page, page),
		chain("MAP of the control queue's page", 25, mapHeader, wire.Run{Address: 0, Bytes: 4096}),
		chain("MAP with all flags", 21, with(func(h *wire.ChainHeader) { h.Flags = ^uint32(0) }),
			page),
		rawChain("empty", 5, virtqueuetest.Desc{}),
		rawChain("header too short", 8,
			virtqueuetest.Desc{Addr: 1 << 20, Len: wire.ChainHeaderSize - 1}),
		rawChain("only writable", 9,
			virtqueuetest.Desc{Addr: 1 << 20, Len: 64, Flags: virtqueuetest.Write}),
		rawChain("readable after writable", 9,
			virtqueuetest.Desc{Addr: 1 << 20, Len: 64, Flags: virtqueuetest.Write},
			virtqueuetest.Desc{Addr: 1 << 20, Len: 64}),
		rawChain("outside memory", 4, virtqueuetest.Desc{Addr: 1 << 50, Len: 64}),
		rawChain("wraps", 3, virtqueuetest.Desc{Addr: ^uint64(0), Len: ^uint32(0)}),
		rawChain("lengths that overflow", 7, virtqueuetest.Desc{Addr: 0, Len: ^uint32(0)},
			virtqueuetest.Desc{Addr: 0, Len: 1}),
		rawChain("indirect table of 0", 6,
			virtqueuetest.Desc{Addr: 1 << 20, Flags: virtqueuetest.Indirect}),
		rawChain("indirect table of 4 GiB", 6,
			virtqueuetest.Desc{Addr: 1 << 20, Len: ^uint32(15), Flags: virtqueuetest.Indirect}),
		rawChain("indirect and next", 6,
			virtqueuetest.Desc{Addr: 1 << 20, Len: 16, Flags: virtqueuetest.Indirect},
			virtqueuetest.Desc{Addr: 1 << 20, Len: 16}),
		loop("points at itself", 40, 0),
		loop("two that point at each other", 41, 0),
		loop("next beyond the table", 60000, 0),
		loop("writable loop", 40, virtqueuetest.Write),
		{"chain: avail index jumps", 11, func(_ *guest, c *channel) error {
			d := c.queue().Driver
			d.SetAvailIdx(d.AvailIdx() + 9999)
			c.kick()
			return nil
		}},
		{"chain: avail index goes back", 11, func(_ *guest, c *channel) error {
			d := c.queue().Driver
			d.SetAvailIdx(d.AvailIdx() - 1)
			c.kick()
			return nil
		}},
		{"chain: head out of range", 2, func(_ *guest, c *channel) error {
			c.queue().Driver.Offer(65535)
			c.kick()
			return nil
		}},
		{"chain: a head that is in flight", 23, func(_ *guest, c *channel) error {
			head, err := c.queue().Driver.Add(virtqueuetest.Desc{Addr: c.chains + 4096, Len: 40},
				virtqueuetest.Desc{Addr: c.chains + 8000, Len: 8, Flags: virtqueuetest.Write})
			for range 3 {
				c.queue().Driver.Offer(head)
				c.kick()
			}
			return err
		}},
		{"chain: 20000 bad ones", 26, func(_ *guest, c *channel) error {
			for range 20000 {
				if _, err := c.queue().Driver.Add(virtqueuetest.Desc{Addr: 1 << 20,
					Len: 64}); err != nil {
					c.kick()
					wait := patience.Of(soon)
					for ; c.reap() == 0; time.Sleep(10 * time.Microsecond) {
						if wait.Over() {
							return errSilent
						}
					}
				}
			}
			return nil
		}},
		{"chain: flood of kicks", 26, func(_ *guest, c *channel) error {
			for range 50000 {
				c.kick()
			}
			return nil
		}},
		{"chain: memory changes while it is busy", 38, func(g *guest, c *channel) error {
			if !c.open {
				return nil
			}
			for range 5 {
				for range 20 {
					_ = c.send(999)
				}
				g.front.SetMemory(g.memory)
			}
			return nil
		}},
	}
}
