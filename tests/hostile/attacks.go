// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/patience"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

func attacks() (list []attack) {
	for _, part := range [][]attack{controlAttacks(), chainAttacks(), ringAttacks(),
		bufferAttacks(), everyOp(), gpuAttacks(), mappingAttacks(), shareAttacks(),
		cycleAttacks()} {
		list = append(list, part...)
	}
	return list
}

// refused is a control request that must be answered, but not with OK.
func refused(name string, r wire.ControlRequest) attack {
	return attack{"control: " + name, 21, func(g *guest, _ *channel) error {
		status, err := g.control(r)
		if err == nil && status == wire.StatusOk {
			err = errors.New("it was answered with OK, want a refusal")
		}
		return err
	}}
}

// controlChain is a chain on the control queue that must come back without a response.
func controlChain(name string, class int, list ...virtqueuetest.Desc) attack {
	return attack{"control chain: " + name, class, func(g *guest, _ *channel) error {
		if _, err := g.queues[0].Driver.Add(list...); err != nil {
			return err
		}
		g.kick(0)
		wait := patience.Of(soon)
		for ; !wait.Over(); time.Sleep(20 * time.Microsecond) {
			if _, _, ok := g.queues[0].Driver.Reap(); ok {
				return g.hello(0)
			}
		}
		return errSilent
	}}
}

func controlAttacks() []attack {
	const w = virtqueuetest.Write
	list := []attack{
		refused("type 0", wire.ControlRequest{}),
		refused("type 2^32-1", wire.ControlRequest{Type: ^uint32(0)}),
		refused("another version", wire.ControlRequest{Type: wire.ControlHello, Number: 77}),
		refused("OPEN of a channel that isn't there",
			wire.ControlRequest{Type: wire.ControlOpen, Channel: 2}),
		refused("OPEN of channel 2^32-1",
			wire.ControlRequest{Type: wire.ControlOpen, Channel: ^uint32(0)}),
		refused("OPEN of channel 2^31",
			wire.ControlRequest{Type: wire.ControlOpen, Channel: 1 << 31}),
		refused("CLOSE of a channel that isn't there",
			wire.ControlRequest{Type: wire.ControlClose, Channel: 64}),
		refused("OPEN of an open channel",
			wire.ControlRequest{Type: wire.ControlOpen, Channel: witness}),
		controlChain("no response", 9, virtqueuetest.Desc{Addr: 1 << 20, Len: 32}),
		controlChain("no request", 9, virtqueuetest.Desc{Addr: 1 << 20, Len: 8, Flags: w}),
		controlChain("short request", 8, virtqueuetest.Desc{Addr: 1 << 20, Len: 31},
			virtqueuetest.Desc{Addr: 1 << 20, Len: 8, Flags: w}),
		controlChain("short response", 8, virtqueuetest.Desc{Addr: 1 << 20, Len: 32},
			virtqueuetest.Desc{Addr: 1 << 20, Len: 7, Flags: w}),
		controlChain("response in two", 8, virtqueuetest.Desc{Addr: 1 << 20, Len: 32},
			virtqueuetest.Desc{Addr: 1 << 20, Len: 4, Flags: w},
			virtqueuetest.Desc{Addr: 1 << 20, Len: 4, Flags: w}),
		controlChain("outside memory", 4, virtqueuetest.Desc{Addr: guestBytes, Len: 32},
			virtqueuetest.Desc{Addr: 1 << 20, Len: 8, Flags: w}),
		controlChain("across the end of memory", 4,
			virtqueuetest.Desc{Addr: guestBytes - 16, Len: 32},
			virtqueuetest.Desc{Addr: 1 << 20, Len: 8, Flags: w}),
		controlChain("wraps", 3, virtqueuetest.Desc{Addr: ^uint64(0) - 15, Len: 32},
			virtqueuetest.Desc{Addr: 1 << 20, Len: 8, Flags: w}),
		controlChain("empty", 5, virtqueuetest.Desc{}),
		controlChain("nested indirect table", 6,
			virtqueuetest.Desc{Addr: 1 << 20, Len: 17, Flags: virtqueuetest.Indirect}),
		{"control: the same channel 50 times at once", 24, func(g *guest, c *channel) error {
			for range 25 {
				if err := c.drop(); err != nil {
					return err
				}
				if status, err := g.control(wire.ControlRequest{Type: wire.ControlOpen,
					Channel: victim}); err != nil || status != wire.StatusOk {
					return fmt.Errorf("OPEN: %d, %w", status, err)
				}
			}
			return c.drop()
		}},
		{"control: kicks without requests", 26, func(g *guest, _ *channel) error {
			for range 20000 {
				g.kick(0)
			}
			return g.hello(0)
		}},
		{"control: avail index jumps", 11, func(g *guest, c *channel) error {
			d := g.queues[0].Driver
			d.SetAvailIdx(d.AvailIdx() + 1000)
			g.kick(0)
			time.Sleep(5 * time.Millisecond)
			return g.reset()
		}},
		{"control: head out of range", 2, func(g *guest, c *channel) error {
			g.queues[0].Driver.Offer(60000)
			g.kick(0)
			time.Sleep(5 * time.Millisecond)
			return g.reset()
		}},
	}
	return list
}

// ring is an attack by words of the arena's header, or of a command.
func ring(name string, class int, do func(c *channel)) attack {
	return attack{"ring: " + name, class, func(_ *guest, c *channel) error {
		do(c)
		c.kick()
		time.Sleep(2 * time.Millisecond)
		return nil
	}}
}

func ringAttacks() []attack {
	size := func(name string, size uint32) attack {
		return ring("command of "+name+" bytes", 21, func(c *channel) {
			b := c.encode(999, 0, 0, 0, 0)
			b[4], b[5], b[6], b[7] = byte(size), byte(size>>8), byte(size>>16), byte(size>>24)
			_ = c.append(b)
		})
	}
	word := func(name string, offset uint64) attack {
		return ring(name+" is garbage", 13, func(c *channel) {
			for range 200 {
				c.put(offset, rand.Uint32())
				c.kick()
				time.Sleep(20 * time.Microsecond)
			}
		})
	}
	return []attack{
		ring("appended jumps by 2^31", 11, func(c *channel) { c.publish(c.appended + 1<<31) }),
		ring("appended jumps by the ring", 11,
			func(c *channel) { c.publish(c.appended + wire.RingBytes) }),
		ring("appended jumps by the ring and 8", 11,
			func(c *channel) { c.publish(c.appended + wire.RingBytes + 8) }),
		ring("appended goes back", 11, func(c *channel) { c.publish(c.appended - 8) }),
		ring("appended is odd", 11, func(c *channel) { c.publish(c.appended + 25) }),
		size("0", 0), size("8", 8), size("16", 16), size("25", 25), size("2^31", 1<<31),
		size("2^32-8", 1<<32-8),
		size("2^32-1", 1<<32-1), size("the ring's", wire.RingBytes),
		size("the ring's and 8", wire.RingBytes+8),
		word("appended", wire.ArenaHeaderAppendedOffset),
		word("consumed", wire.ArenaHeaderConsumedOffset),
		word("executed", wire.ArenaHeaderExecutedOffset),
		word("sleepers", wire.ArenaHeaderSleepersOffset),
		word("worker_sleeping", wire.ArenaHeaderWorkerSleepingOffset),
		word("output_tail", wire.ArenaHeaderOutputTailOffset),
		word("output_head", wire.ArenaHeaderOutputHeadOffset),
		word("async_error", wire.ArenaHeaderAsyncErrorOffset),
		word("dead", wire.ArenaHeaderDeadOffset),
		ring("slots beyond the last", 20, func(c *channel) {
			for _, slot := range []uint16{256, 257, 4095, 32768, 65535} {
				c.slot = slot
				_ = c.append(c.encode(999, wire.CommandFlagReply, 1))
				_ = c.append(c.encode(gpubackend.OpStreamSynchronize, wire.CommandFlagReply, 1, 2))
			}
			c.slot = 0
		}),
		ring("all flags", 21, func(c *channel) { _ = c.append(c.encode(999, 0xffff, 1)) }),
		ring("a full ring of NOPs", 13, func(c *channel) {
			for range wire.RingBytes / wire.CommandSize {
				_ = c.append(c.encode(0, 0, 0))
			}
		}),
		{"ring: 200,000 calls whose answers nobody reads", 27, func(g *guest, c *channel) error {
			before, _ := g.resident()
			for range 200000 {
				if err := c.append(c.encode(gpubackend.OpCtxSynchronize, wire.CommandFlagReply,
					1)); err != nil {
					return err
				}
			}
			if after, _ := g.resident(); after > before+64<<20 {
				return fmt.Errorf("%d MiB more, want at most 64", (after-before)>>20)
			}
			return nil
		}},
		{"ring: commands change while they are executed", 10, func(g *guest, c *channel) error {
			stop := make(chan struct{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				b := make([]byte, 64)
				for {
					select {
					case <-stop:
						return
					default:
					}
					for i := range b {
						b[i] = byte(rand.Uint32())
					}
					// Change words and payloads only: a wrong header would end the ring at once.
					at := c.arena + wire.Ring + uint64(rand.Uint32N(wire.RingBytes/64))*64
					_ = g.memory.Mem.Write(b[wire.CommandSize:], at+wire.CommandSize)
				}
			}()
			defer func() { close(stop); <-ended }()
			for i := range 20000 {
				// Each command has 64 bytes, so that headers are always in the same places.
				op := []gpubackend.Op{gpubackend.OpMemsetD8Async, gpubackend.OpCopyHtoD,
					gpubackend.OpLaunchKernel, gpubackend.OpModuleGetFunction}[i%4]
				if err := c.append(c.encode(op, 0, 0, 1, bulk(0), 64, 64, 0)); err != nil {
					return nil // the worker has given up, which it may
				}
			}
			return nil
		}},
		{"ring: headers change while they are read", 10, func(g *guest, c *channel) error {
			b := make([]byte, 4096)
			for range 200 {
				for i := range b {
					b[i] = byte(rand.Uint32())
				}
				g.memory.Write(c.arena+wire.Ring+uint64(c.appended%wire.RingBytes)&^4095, b)
				c.appended += 64
				c.publish(c.appended)
			}
			return nil
		}},
	}
}

// bufferAttacks use buffer references with wrong ranges, which must be refused.
func bufferAttacks() (list []attack) {
	references := []struct {
		name string
		ref  uint64
	}{
		{"bulk", bulk(0)}, {"bulk before the bulk area", wire.BufferBulk<<56 | (wire.Bulk - 1)},
		{"bulk at the arena's end", wire.BufferBulk<<56 | arenaBytes},
		{"bulk at 0", wire.BufferBulk << 56}, {"bulk at 2^56-1", wire.BufferBulk<<56 | (1<<56 - 1)},
		{"inline", wire.BufferInline<<56 | wire.CommandSize},
		{"inline at 0", wire.BufferInline << 56},
		{"inline at 2^56-1", wire.BufferInline<<56 | (1<<56 - 1)},
		{"map", wire.BufferMap<<56 | 5<<32}, {"map at its end", wire.BufferMap<<56 | 5<<32 | 1<<20},
		{"map that isn't there", wire.BufferMap<<56 | 77<<32},
		{"map at 2^32-1", wire.BufferMap<<56 | 5<<32 | (1<<32 - 1)}, {"unknown kind", 0xff << 56},
		{"none", 0},
	}
	for _, r := range references {
		list = append(list, attack{"buffer: " + r.name, 21, func(_ *guest, c *channel) error {
			for _, n := range []uint64{arenaBytes - wire.Bulk + 1, 1<<20 + 1, 1 << 31, 1<<32 - 1,
				1 << 32, 1 << 40, 1 << 63, ^uint64(0)} {
				for _, op := range []gpubackend.Op{gpubackend.OpCopyHtoD, gpubackend.OpCopyDtoH} {
					result, _, err := c.call(op, 4096, r.ref, n, n, 0, 0)
					if err != nil {
						return err
					}
					if result == gpubackend.Success {
						return fmt.Errorf("%s of %#x bytes succeeded, want an error", op.Name(), n)
					}
				}
				result, _, err := c.call(gpubackend.OpModuleLoadData, r.ref, n, r.ref, n, r.ref, n,
					r.ref, n)
				if err != nil {
					return err
				}
				if result == gpubackend.Success {
					return fmt.Errorf("loaded a module of %#x bytes, want an error", n)
				}
			}
			return nil
		}})
	}
	return list
}

// everyOp sends each operation with too few words, and with words that make no sense.
func everyOp() (list []attack) {
	for op := gpubackend.Op(1); op < 1024; op++ {
		if strings.HasPrefix(op.Name(), "op ") && op > 5 && op%64 != 0 {
			continue
		}
		list = append(list,
			attack{fmt.Sprintf("%s (%d): wild words", op.Name(), op), 48,
				func(_ *guest, c *channel) error {
					if !c.open {
						return nil
					}
					c.slot = 9
					defer func() { c.slot = 0 }()
					forged := uint64(0x5043)<<48 | 0xabc<<24 | 7
					for n := range 3 {
						_ = c.append(c.encode(op, wire.CommandFlagReply, 1, make([]uint64, n)...))
					}
					for _, v := range []uint64{0, 1, 2, forged, c.context, 1 << 31, 1<<32 - 1,
						1 << 63, ^uint64(0), bulk(0), bulk(arenaBytes), wire.BufferMap<<56 | 5<<32,
						wire.BufferInline<<56 | 24} {
						words := make([]uint64, 14)
						for i := range words {
							words[i] = v
						}
						if err := c.append(c.encode(op, wire.CommandFlagReply, 1,
							words...)); err != nil {
							return nil
						}
						for i := range words { // references and lengths, alternately
							words[i] = []uint64{v, 64}[i%2]
						}
						if err := c.append(c.encode(op, 0, 0, words...)); err != nil {
							return nil
						}
					}
					for range 20 {
						words := make([]uint64, 14)
						for i := range words {
							words[i] = rand.Uint64() >> rand.UintN(64)
						}
						_ = c.append(c.encode(op, wire.CommandFlagReply, 1, words...))
					}
					return nil
				}})
	}
	return list
}
