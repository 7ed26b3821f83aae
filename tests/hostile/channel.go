// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/wire/wiretest"
	"github.com/paracuda/paracuda/internal/patience"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// channel is a guest process's channel.
type channel struct {
	g        *guest
	index    int
	arena    uint64
	chains   uint64
	pages    uint64 // 1 MiB to map
	appended uint32
	seq      uint32
	context  uint64
	slot     uint16
	open     bool
}

var errSilent = errors.New("no answer")

func (c *channel) queue() *vhostusertest.Queue { return c.g.queues[1+c.index] }
func (c *channel) kick()                       { c.g.kick(1 + c.index) }

// drop closes the channel.
func (c *channel) drop() error {
	c.open = false
	status, err := c.g.control(wire.ControlRequest{Type: wire.ControlClose,
		Channel: uint32(c.index)})
	if err == nil && status != wire.StatusOk {
		err = fmt.Errorf("CLOSE: status %d", status)
	}
	return err
}

// start gives the channel new rings, and opens it. For a second after that the device lets other
// channels stand still: the VM might be about to pause.
func (c *channel) start() error {
	c.g.renew(1 + c.index)
	return c.begin()
}

// begin opens the channel and gives it an arena, an EVENT and a MAP of id 5.
func (c *channel) begin() error {
	c.appended, c.seq, c.context, c.slot = 0, 0, 0, 0
	c.g.memory.Write(c.arena, make([]byte, wire.Ring))
	status, err := c.g.control(wire.ControlRequest{Type: wire.ControlOpen, Channel: uint32(c.index),
		Pid: 1})
	if err != nil || status != wire.StatusOk {
		return fmt.Errorf("OPEN: status %d, %w", status, err)
	}
	c.open = true
	c.chain(0, wire.ChainHeader{Type: wire.ChainArena, Bytes: arenaBytes},
		wire.Run{Address: c.arena, Bytes: arenaBytes})
	c.chain(1, wire.ChainHeader{Type: wire.ChainEvent})
	c.chain(2, wire.ChainHeader{Type: wire.ChainMap, Id: 5, Bytes: 1 << 20, Address: 0x10000000,
		Flags: wire.MapFlagWrite}, wire.Run{Address: c.pages, Bytes: 1 << 20})
	r, _, err := c.call(gpubackend.Op(wire.OpHello), 0, 0, bulk(0), 1<<16)
	if err != nil || r != gpubackend.Success {
		return fmt.Errorf("hello: %d, %w", r, err)
	}
	return nil
}

// chain makes a chain available that has a header and runs.
func (c *channel) chain(at int, h wire.ChainHeader, runs ...wire.Run) {
	addr := c.chains + uint64(at)*4096
	wiretest.Chain(c.g.memory.Write, addr, h, runs...)
	list := []virtqueuetest.Desc{{Addr: addr, Len: wire.ChainHeaderSize}}
	if h.Type == wire.ChainEvent {
		list = append(list,
			virtqueuetest.Desc{Addr: addr + 2048, Len: wire.EventRecordSize,
				Flags: virtqueuetest.Write})
	}
	c.raw(list...)
}

// raw makes any chain available.
func (c *channel) raw(list ...virtqueuetest.Desc) {
	if _, err := c.queue().Driver.Add(list...); err != nil {
		c.reap()
		_, _ = c.queue().Driver.Add(list...)
	}
	c.kick()
}

func (c *channel) reap() (n int) {
	for {
		if _, _, ok := c.queue().Driver.Reap(); !ok {
			return n
		}
		n++
	}
}

func bulk(offset uint64) uint64 { return wire.BufferBulk<<56 | (wire.Bulk + offset) }

// put writes a word of the arena.
func (c *channel) put(offset uint64, v uint32) {
	c.g.memory.Write(c.arena+offset, binary.LittleEndian.AppendUint32(nil, v))
}

func (c *channel) get(offset uint64) uint32 {
	return binary.LittleEndian.Uint32(c.g.memory.Read(c.arena+offset, 4))
}

// encode makes a command.
func (c *channel) encode(op gpubackend.Op, flags uint16, seq uint32, words ...uint64) []byte {
	h := wire.Command{Op: uint16(op), Flags: flags, Size: uint32(wire.CommandSize + 8*len(words)),
		Context: c.context, Slot: c.slot, Seq: seq}
	b := make([]byte, wire.CommandSize)
	h.Encode(b)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// append waits for room in the ring, puts bytes there, and publishes them.
func (c *channel) append(b []byte) error {
	n := uint32(len(b))
	if room := wire.RingBytes - c.appended%wire.RingBytes; room < n+wire.CommandSize {
		fill := wire.Command{Size: room}
		h := make([]byte, wire.CommandSize)
		fill.Encode(h)
		if err := c.room(room); err != nil {
			return err
		}
		c.g.memory.Write(c.arena+wire.Ring+uint64(c.appended%wire.RingBytes), h)
		c.appended += room
	}
	if err := c.room(n); err != nil {
		return err
	}
	c.g.memory.Write(c.arena+wire.Ring+uint64(c.appended%wire.RingBytes), b)
	c.appended += n
	c.publish(c.appended)
	return nil
}

// room waits until n bytes are free.
func (c *channel) room(n uint32) error {
	full := func() bool {
		return c.appended+n-c.get(wire.ArenaHeaderConsumedOffset) > wire.RingBytes
	}
	wait := patience.Of(soon / 5)
	for ; full(); time.Sleep(50 * time.Microsecond) {
		c.publish(c.appended)
		if wait.Over() {
			return fmt.Errorf("room in the ring: %w", errSilent)
		}
	}
	return nil
}

func (c *channel) publish(to uint32) {
	c.put(wire.ArenaHeaderAppendedOffset, to)
	c.kick()
}

// send sends a command that isn't answered.
func (c *channel) send(op gpubackend.Op, words ...uint64) error {
	return c.append(c.encode(op, 0, 0, words...))
}

// call sends a command and waits for its answer.
func (c *channel) call(op gpubackend.Op, words ...uint64) (gpubackend.Result, []uint64, error) {
	return c.callFor(soon, op, words...)
}

func (c *channel) callFor(
	limit time.Duration, op gpubackend.Op, words ...uint64,
) (gpubackend.Result, []uint64, error) {
	c.seq++
	if err := c.append(c.encode(op, wire.CommandFlagReply, c.seq, words...)); err != nil {
		return 0, nil, err
	}
	at := wire.Slots + uint64(c.slot)*wire.SlotBytes
	begin := time.Now()
	wait := patience.Of(limit)
	for n := 0; ; n++ {
		if c.get(at) == c.seq {
			break
		}
		if wait.Over() {
			return 0, nil, fmt.Errorf("%s: %w", op.Name(), errSilent)
		}
		if used := c.queue().Driver.UsedIdx(); time.Since(begin) > 100*time.Millisecond &&
			used == c.queue().Driver.AvailIdx() {
			return 0, nil, fmt.Errorf("%s: no answer, and all chains are back: the worker is gone",
				op.Name())
		}
		time.Sleep(10 * time.Microsecond << min(n, 6)) // most answers come at once
	}
	var s wire.Slot
	s.Decode(c.g.memory.Read(c.arena+at, wire.SlotBytes))
	return gpubackend.Result(s.Result), s.Word[:], nil
}

// must makes a call that has to succeed, and returns the first word of its answer.
func (c *channel) must(op gpubackend.Op, words ...uint64) (uint64, error) {
	r, out, err := c.call(op, words...)
	if err != nil {
		return 0, err
	}
	if r != gpubackend.Success {
		return 0, fmt.Errorf("%s: result %d, want success", op.Name(), r)
	}
	return out[0], nil
}

// compute does what a program does: it allocates, fills, copies back and compares.
func (c *channel) compute(value byte) (err error) {
	c.slot = 0
	if c.context, err = c.must(gpubackend.OpDevicePrimaryCtxRetain, 0); err != nil {
		return err
	}
	const n = 4096
	address, err := c.must(gpubackend.OpMemAlloc, n)
	if err != nil {
		return err
	}
	if err := c.send(gpubackend.OpMemsetD8Async, address, uint64(value), n, 0); err != nil {
		return err
	}
	if _, err := c.must(gpubackend.OpCopyDtoH, address, bulk(1<<16), n, n, 0, 0); err != nil {
		return err
	}
	if got := c.g.memory.Read(c.arena+wire.Bulk+1<<16, n); !bytes.Equal(got,
		bytes.Repeat([]byte{value}, n)) {
		return fmt.Errorf("wrong bytes came back, want each to be %#x", value)
	}
	_, err = c.must(gpubackend.OpMemFree, address)
	return err
}

// recover makes sure that a program can use the channel. If it can't, the channel is closed and
// opened first.
func (c *channel) recover(value byte) error {
	if c.open {
		err := func() error {
			c.slot = 7
			if _, _, err := c.callFor(2*time.Second, 999); err != nil {
				return err
			}
			if c.get(wire.ArenaHeaderStickyErrorOffset) != 0 {
				return errors.New("context is dead")
			}
			return c.compute(value)
		}()
		if err == nil {
			return nil
		}
	}
	if err := c.drop(); err != nil {
		return err
	}
	if err := c.start(); err != nil {
		return err
	}
	return c.compute(value)
}
