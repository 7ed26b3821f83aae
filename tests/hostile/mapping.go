// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/wire/wiretest"
	"github.com/paracuda/paracuda/internal/patience"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// onMap is a buffer reference into a map.
func onMap(id uint32, offset uint64) uint64 { return wire.BufferMap<<56 | uint64(id)<<32 | offset }

// device makes a context, and 1 MiB of device memory filled with a byte.
func (c *channel) device(value byte) (address uint64, err error) {
	if c.context, err = c.must(gpubackend.OpDevicePrimaryCtxRetain, 0); err != nil {
		return 0, err
	}
	if address, err = c.must(gpubackend.OpMemAlloc, 1<<20); err != nil {
		return 0, err
	}
	return address, c.send(gpubackend.OpMemsetD8Async, address, uint64(value), 1<<20, 0)
}

// holds returns an error if guest memory has another byte anywhere.
func (c *channel) holds(what string, addr, n uint64, value byte) error {
	if got := c.g.memory.Read(addr, n); !bytes.Equal(got, bytes.Repeat([]byte{value}, int(n))) {
		return fmt.Errorf("%s was written to, want only bytes %#x", what, value)
	}
	return nil
}

// refuse makes calls that must be refused.
func (c *channel) refuse(calls map[gpubackend.Op][]uint64) error {
	for op, words := range calls {
		result, _, err := c.call(op, words...)
		if err != nil {
			return err
		}
		if result == gpubackend.Success {
			return fmt.Errorf("%s succeeded, want an error", op.Name())
		}
	}
	return nil
}

// offer makes one page available as a MAP, and returns the head of its chain.
func (c *channel) offer(at int, id, flags uint32, page uint64) (uint16, error) {
	addr := c.chains + uint64(at)*4096
	wiretest.Chain(c.g.memory.Write, addr,
		wire.ChainHeader{Type: wire.ChainMap, Id: id, Bytes: 4096, Flags: flags},
		wire.Run{Address: page, Bytes: 4096})
	head, err := c.queue().Driver.Add(
		virtqueuetest.Desc{Addr: addr, Len: wire.ChainHeaderSize})
	c.kick()
	return head, err
}

// mappingAttacks copy by reference to pages of other channels, or to pages that were given back.
func mappingAttacks() []attack {
	return []attack{
		{"map: that of another channel", 25, othersMap},
		{"map: written, though it is for reading", 21, readOnlyMap},
		{"map: used after it was given back", 23, returnedMap},
		{"map: named by commands that are refused", 24, refusedMaps},
		{"map: kept, and given back twice", 23, keptMap},
		{"map: written after its chain came back", 23, writesAfterReturn},
		{"map: written after CLOSE", 24, writesAfterClose},
		{"map: 5,000 parts of a copy that nobody joins", 26, endlessParts},
	}
}

func othersMap(g *guest, c *channel) error {
	other := g.channels[witness]
	page := other.pages + 512<<10
	g.memory.Write(page, bytes.Repeat([]byte{0x77}, 4096))
	if _, err := other.offer(20, 6, wire.MapFlagWrite, page); err != nil {
		return err
	}
	address, err := c.device(0xee)
	if err != nil {
		return err
	}
	err = c.refuse(map[gpubackend.Op][]uint64{
		gpubackend.OpCopyHtoD:       {address, onMap(6, 0), 4096, 4096, 0, 0},
		gpubackend.OpCopyDtoH:       {address, onMap(6, 0), 4096, 4096, 0, 0},
		gpubackend.OpCopyBox:        {address, 64, 64, onMap(6, 0), 64, 64, 64, 64, 1, 1, 1, 0, 0},
		gpubackend.OpHostRegister:   {6, 0, 4096, 0},
		gpubackend.OpHostPageable:   {6, 0, 4096},
		gpubackend.Op(wire.OpUnmap): {6},
		gpubackend.OpModuleLoadData: {onMap(6, 0), 4096, onMap(6, 0), 4096, onMap(6, 0), 4096,
			onMap(6, 0), 4096},
	})
	if err != nil {
		return err
	}
	if _, err := other.must(gpubackend.Op(wire.OpUnmap), 6); err != nil {
		return fmt.Errorf("the other channel: %w", err)
	}
	return c.holds("the other channel's page", page, 4096, 0x77)
}

func readOnlyMap(g *guest, c *channel) error {
	page := c.pages + 256<<10
	g.memory.Write(page, bytes.Repeat([]byte{0x77}, 4096))
	if _, err := c.offer(20, 20, 0, page); err != nil {
		return err
	}
	address, err := c.device(0xee)
	if err != nil {
		return err
	}
	if _, err := c.must(gpubackend.OpCopyHtoD, address+4096, onMap(20, 0), 4096, 4096, 0,
		0); err != nil {
		return err
	}
	err = c.refuse(map[gpubackend.Op][]uint64{
		gpubackend.OpCopyDtoH: {address, onMap(20, 0), 4096, 4096, 0, 0},
		gpubackend.OpCopyBox:  {address, 64, 64, onMap(20, 0), 64, 64, 64, 64, 1, 1, 1, 0, 0},
	})
	if err != nil {
		return err
	}
	return c.holds("the page", page, 4096, 0x77)
}

func returnedMap(g *guest, c *channel) error {
	page := c.pages + 256<<10
	address, err := c.device(0xee)
	if err != nil {
		return err
	}
	for id, flags := range map[uint32]uint32{21: wire.MapFlagWrite,
		22: wire.MapFlagWrite | wire.MapFlagOneshot} {
		if _, err := c.offer(int(id), id, flags, page); err != nil {
			return err
		}
		if _, err := c.must(gpubackend.OpCopyDtoH, address, onMap(id, 0), 4096, 4096, 0,
			0); err != nil {
			return err
		}
		if flags&wire.MapFlagOneshot == 0 {
			if _, err := c.must(gpubackend.Op(wire.OpUnmap), uint64(id)); err != nil {
				return err
			}
		}
		g.memory.Write(page, bytes.Repeat([]byte{0x77}, 4096))
		err = c.refuse(map[gpubackend.Op][]uint64{
			gpubackend.OpCopyDtoH:       {address, onMap(id, 0), 4096, 4096, 0, 0},
			gpubackend.OpCopyHtoD:       {address, onMap(id, 0), 4096, 4096, 0, 0},
			gpubackend.Op(wire.OpUnmap): {uint64(id)},
		})
		if err != nil {
			return err
		}
		if err := c.holds("a page that was given back", page, 4096, 0x77); err != nil {
			return err
		}
	}
	return nil
}

// keptMap makes a map whose chain comes back at once. The worker may use its page until UNMAP, and
// no longer.
func keptMap(g *guest, c *channel) error {
	page := c.pages + 256<<10
	address, err := c.device(0xee)
	if err != nil {
		return err
	}
	c.reap()
	h := wire.ChainHeader{
		Type: wire.ChainMap, Id: 31, Bytes: 4096, Flags: wire.MapFlagWrite,
	}
	const record = 2048
	at := c.chains + 20*4096
	// The second map has the id of the first, which is in use, so it isn't kept.
	for i, want := range []byte{1, 0} {
		wiretest.Chain(c.g.memory.Write, at, h, wire.Run{Address: page, Bytes: 4096})
		c.g.memory.Write(at+record, make([]byte, wire.MapRecordSize))
		c.raw(virtqueuetest.Desc{Addr: at, Len: wire.ChainHeaderSize},
			virtqueuetest.Desc{
				Addr: at + record, Len: wire.MapRecordSize, Flags: virtqueuetest.Write,
			})
		for wait := patience.Of(soon); ; time.Sleep(50 * time.Microsecond) {
			if _, _, ok := c.queue().Driver.Reap(); ok {
				break
			}
			if wait.Over() {
				return fmt.Errorf("map number %d that is to be kept: %w", i, errSilent)
			}
		}
		if got := c.g.memory.Read(at+record, 1)[0]; got != want {
			return fmt.Errorf("map number %d that is to be kept: kept is %d, want %d", i, got, want)
		}
	}
	for range 2 {
		_, err := c.must(gpubackend.OpCopyDtoH, address, onMap(31, 0), 4096, 4096, 0, 0)
		if err != nil {
			return err
		}
	}
	if _, err := c.must(gpubackend.Op(wire.OpUnmap), 31); err != nil {
		return err
	}
	g.memory.Write(page, bytes.Repeat([]byte{0x77}, 4096))
	err = c.refuse(map[gpubackend.Op][]uint64{
		gpubackend.OpCopyDtoH:       {address, onMap(31, 0), 4096, 4096, 0, 0},
		gpubackend.OpHostRegister:   {31, 0, 4096, 0},
		gpubackend.Op(wire.OpUnmap): {31},
	})
	if err != nil {
		return err
	}
	return c.holds("a page that was given back", page, 4096, 0x77)
}

// refusedMaps makes maps for one command each. They must come back, whatever refuses the command.
func refusedMaps(g *guest, c *channel) error {
	address, err := c.device(0xee)
	if err != nil {
		return err
	}
	c.reap()
	good := c.context
	for i, refused := range []struct {
		op      gpubackend.Op
		flags   uint16
		context uint64
		words   []uint64
	}{
		{gpubackend.OpCopyHtoD, wire.CommandFlagReply, good,
			[]uint64{address, onMap(300, 0), 4096, 4096, 0xdead, 0}},
		{gpubackend.OpCopyHtoD, wire.CommandFlagReply, good,
			[]uint64{address, onMap(300, 0), 4096, 8192, 0, 0}},
		{gpubackend.OpCopyHtoD, wire.CommandFlagReply, good,
			[]uint64{address, onMap(300, 0), 4096}},
		{gpubackend.OpCopyHtoD, wire.CommandFlagReply, 0xdead,
			[]uint64{address, onMap(300, 0), 4096, 4096, 0, 0}},
		{gpubackend.OpCopyHtoD, 0, good,
			[]uint64{address, onMap(300, 0), 4096, 4096, 0xdead, wire.CopyFlagPart}},
		{gpubackend.OpCopyHtoD, 0, 0xdead,
			[]uint64{address, onMap(300, 0), 4096, 4096, 0, wire.CopyFlagPart}},
		// The map may only be read.
		{gpubackend.OpCopyDtoH, wire.CommandFlagReply, good,
			[]uint64{address, onMap(300, 0), 4096, 4096, 0, 0}},
		{gpubackend.OpCopyBox, wire.CommandFlagReply, good,
			[]uint64{address, 64, 64, onMap(300, 0), 4096, 64, 64, 64, 1, 1, 9, 0, 0}},
		{9999, wire.CommandFlagReply, good, []uint64{onMap(300, 0), 4096}},
	} {
		want, err := c.offer(20, 300, wire.MapFlagOneshot, c.pages+256<<10)
		if err != nil {
			return err
		}
		c.context = refused.context
		c.seq++
		err = c.append(c.encode(refused.op, refused.flags, c.seq, refused.words...))
		c.context = good
		if err != nil {
			return err
		}
		for wait := patience.Of(soon); ; time.Sleep(50 * time.Microsecond) {
			if head, _, ok := c.queue().Driver.Reap(); ok && uint16(head) == want {
				break
			}
			if wait.Over() {
				return fmt.Errorf("refused command %d: the map: %w", i, errSilent)
			}
		}
	}
	_, _, err = c.call(gpubackend.Op(wire.OpJoin))
	return err
}

// writesAfterReturn overwrites each page as soon as its chain has come back, while the worker still
// writes to others.
func writesAfterReturn(g *guest, c *channel) error {
	const pages = 24
	address, err := c.device(0xee)
	if err != nil {
		return err
	}
	c.reap()
	mine := bytes.Repeat([]byte{0x11}, 4096)
	for round := range 20 {
		page := map[uint32]uint64{}
		for i := range uint32(pages) {
			at := c.pages + uint64(i)*8192
			head, err := c.offer(20+int(i), 100+i, wire.MapFlagWrite|wire.MapFlagOneshot, at)
			if err != nil {
				return err
			}
			page[uint32(head)] = at
			err = c.append(c.encode(gpubackend.OpCopyDtoH, 0, 0, address, onMap(100+i, 0), 4096,
				4096, 0, wire.CopyFlagPart))
			if err != nil {
				return err
			}
		}
		for wait := patience.Of(soon); len(page) > 0; {
			head, _, ok := c.queue().Driver.Reap()
			if at := page[head]; ok && at != 0 {
				g.memory.Write(at, mine)
				delete(page, head)
			}
			if wait.Over() {
				return fmt.Errorf("round %d: %d pages: %w", round, len(page), errSilent)
			}
		}
		if _, err := c.must(gpubackend.Op(wire.OpJoin)); err != nil {
			return err
		}
		for i := range uint64(pages) {
			if err := c.holds("a page that was given back", c.pages+i*8192, 4096,
				0x11); err != nil {
				return err
			}
		}
	}
	return nil
}

func writesAfterClose(g *guest, c *channel) error {
	for range 3 {
		address, err := c.device(0xee)
		if err != nil {
			return err
		}
		for range 100 {
			err := c.append(c.encode(gpubackend.OpCopyDtoH, 0, 0, address, onMap(5, 0), 1<<20,
				1<<20, 0, wire.CopyFlagPart))
			if err != nil {
				return err
			}
		}
		if err := c.drop(); err != nil {
			return err
		}
		g.memory.Write(c.pages, bytes.Repeat([]byte{0x11}, 1<<20))
		time.Sleep(20 * time.Millisecond)
		if err := c.holds("memory of a channel that is closed", c.pages, 1<<20, 0x11); err != nil {
			return err
		}
		if err := c.start(); err != nil {
			return err
		}
	}
	return nil
}

func endlessParts(g *guest, c *channel) error {
	address, err := c.device(0xee)
	if err != nil {
		return err
	}
	before, _ := g.resident()
	for i := range 5000 {
		// Every third part is larger than the map.
		n := uint64(4096) << (i % 3 * 8)
		if err := c.append(c.encode(gpubackend.OpCopyDtoH, 0, 0, address, onMap(5, 0), n, n, 0,
			wire.CopyFlagPart)); err != nil {
			return err
		}
	}
	if after, _ := g.resident(); after > before+64<<20 {
		return fmt.Errorf("%d MiB more, want at most 64", (after-before)>>20)
	}
	for i, want := range []gpubackend.Result{gpubackend.InvalidValue, gpubackend.Success} {
		result, _, err := c.call(gpubackend.Op(wire.OpJoin))
		if err != nil {
			return err
		}
		if result != want {
			return fmt.Errorf("JOIN number %d: %d, want %d", i, result, want)
		}
	}
	return nil
}
