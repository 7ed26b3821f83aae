// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"errors"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const (
	stepsAtMost   = 24
	controlAtMost = 40 // control requests that may wait for an answer
)

// choices are made by chance, or by an input of a fuzzer's.
type choices interface {
	IntN(n int) int
	UintN(n uint) uint
	Uint64N(n uint64) uint64
	Uint64() uint64
}

// random is a guest that does random steps without looking at their results. It attacks the device
// process and the worker together, but only by the channel victim.
type random struct {
	choices
	g        *guest
	c        *channel
	pending  int  // control requests that may not be answered yet
	nonsense bool // rings or arena have had nonsense
}

// number is a random number of random size: small ones come as often as large ones.
func (r *random) number() uint64 { return r.Uint64() >> r.UintN(64) }

// likely is mostly one of these values, and otherwise a random number.
func (r *random) likely(values ...uint64) uint64 {
	if r.IntN(5) == 0 {
		return r.number()
	}
	return values[r.IntN(len(values))]
}

// address is mostly in the guest's memory, and often in what the channel uses.
func (r *random) address() uint64 {
	return r.likely(r.c.arena, r.c.chains, r.c.pages, r.g.request, 0, guestBytes) +
		r.likely(0, 8, 4096, r.Uint64N(1<<20))
}

// header makes a chain available whose header and runs are random.
func (r *random) header() {
	h := wire.ChainHeader{Type: uint32(r.likely(wire.ChainArena, wire.ChainEvent, wire.ChainMap,
		wire.ChainMap)), Id: uint32(r.likely(5, 6, 7, 8)), Offset: uint32(r.likely(0, 0, 64)),
		Bytes: r.likely(4096, 8192, arenaBytes), Address: r.likely(0x10000000, 0x20000000),
		Flags: uint32(r.likely(0, wire.MapFlagWrite, wire.MapFlagOneshot,
			wire.MapFlagOneshot|wire.MapFlagWrite))}
	var runs []wire.Run
	for range r.IntN(4) {
		runs = append(runs, wire.Run{Address: r.address() &^ 4095, Bytes: r.likely(4096, 8192,
			arenaBytes)})
	}
	if r.IntN(6) == 0 {
		h.Runs = uint32(r.number())
	}
	r.c.chain(10+r.IntN(100), h, runs...)
}

// descriptors makes a chain of random descriptors available.
func (r *random) descriptors() {
	var list []virtqueuetest.Desc
	for range 1 + r.IntN(4) {
		list = append(list, virtqueuetest.Desc{Addr: r.address(), Len: uint32(r.likely(8, 40, 56,
			4096)), Flags: uint16(r.likely(0, virtqueuetest.Write, virtqueuetest.Indirect))})
	}
	r.c.raw(list...)
}

// ring breaks the rules of the queue itself.
func (r *random) ring() {
	d := r.c.queue().Driver
	switch r.IntN(4) {
	case 0:
		d.SetDesc(uint16(r.IntN(queueSize)), virtqueuetest.Desc{Addr: r.address(),
			Len: uint32(r.number()), Flags: uint16(r.number()), Next: uint16(r.number())})
	case 1:
		d.SetAvailIdx(d.AvailIdx() + uint16(r.number()))
	case 2:
		d.Offer(uint16(r.likely(0, 1, 2, 40)))
	default:
		d.SetUsedEvent(uint16(r.number()))
	}
	r.c.kick()
}

// control makes a request on the control queue, and doesn't wait. Requests for the witness are left
// out: its own kernel must not close it.
func (r *random) control() error {
	if r.pending == controlAtMost {
		r.pending = 0
		return r.g.reset()
	}
	kinds := []uint32{wire.ControlOpen, wire.ControlClose, wire.ControlExport, wire.ControlImport,
		wire.ControlRelease, wire.ControlSettings, wire.ControlPing, 0, 9, 1 << 31}
	request := wire.ControlRequest{Type: kinds[r.IntN(len(kinds))], Number: uint32(r.number()),
		Channel: victim, Pid: int32(r.number())}
	if r.IntN(6) == 0 {
		request.Channel = 2 + uint32(r.number())
	}
	b := make([]byte, wire.ControlRequestSize)
	request.Encode(b)
	at := r.g.request + 128 + uint64(r.pending)*64
	r.pending++
	r.g.memory.Write(at, b)
	answer := r.g.request + 3072
	_, err := r.g.queues[0].Driver.Add(
		virtqueuetest.Desc{Addr: at, Len: uint32(r.likely(wire.ControlRequestSize))},
		virtqueuetest.Desc{Addr: answer, Len: uint32(r.likely(wire.ControlResponseSize, 64)),
			Flags: virtqueuetest.Write})
	r.g.kick(0)
	return err
}

// words writes random words to the arena: to its header, slots and ring.
func (r *random) words() {
	for range 1 + r.IntN(8) {
		r.c.put(r.likely(wire.ArenaHeaderAppendedOffset, wire.ArenaHeaderSleepersOffset,
			wire.ArenaHeaderConsumedOffset, wire.ArenaHeaderWorkerSleepingOffset,
			wire.Slots+r.Uint64N(4096)&^3, wire.Ring+r.Uint64N(65536)&^3)%(arenaBytes-4),
			uint32(r.number()))
	}
	r.c.kick()
}

// commands sends commands that are well-formed but make no sense.
func (r *random) commands() error {
	if !r.c.open {
		return nil
	}
	for range 1 + r.IntN(20) {
		words := make([]uint64, r.IntN(10))
		for i := range words {
			words[i] = r.likely(0, 1, r.c.context, bulk(r.Uint64N(1<<16)), 64, 4096,
				wire.BufferMap<<56|5<<32, 1<<48)
		}
		op := gpubackend.Op(r.likely(r.Uint64N(1024), uint64(gpubackend.OpMemAlloc),
			uint64(gpubackend.OpCopyHtoD), uint64(gpubackend.OpCopyDtoH)))
		flags := uint16(r.likely(0, wire.CommandFlagReply))
		b := r.c.encode(op, flags, uint32(r.number()), words...)
		full := r.c.appended-r.c.get(wire.ArenaHeaderConsumedOffset) > wire.RingBytes/2
		if full || r.c.append(b) != nil {
			r.c.open = false // the worker has given up, which it may
			return nil
		}
	}
	return nil
}

// again closes the channel and opens it, as for the next program.
func (r *random) again() error {
	if err := r.settle(); err != nil {
		return err
	}
	r.nonsense = false
	return errors.Join(r.c.drop(), r.c.start())
}

// step does one random step.
func (r *random) step() error {
	kind := r.IntN(18)
	r.nonsense = r.nonsense || kind < 6 || kind == 8 || kind == 9
	switch kind {
	case 0, 1, 2:
		r.header()
	case 3, 4:
		r.descriptors()
	case 5:
		r.ring()
	case 6, 7:
		return r.control()
	case 8, 9:
		r.words()
	case 10:
		r.g.renew(1 + victim)
	case 11:
		r.g.front.SetMemory(r.g.memory)
	case 12:
		time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
	case 13:
		return r.again()
	default:
		return r.commands()
	}
	return nil
}

// settle gives the control queue new rings if requests on it may still be answered. If the channel
// has had nonsense, it counts as not open, so that it is closed and opened: to wait for a worker
// that may have given up takes long.
func (r *random) settle() error {
	if r.pending > 0 {
		r.pending = 0
		return r.g.reset()
	}
	r.c.open = r.c.open && !r.nonsense
	return nil
}

// attack is an attack by random steps, as long as there are more.
func (r *random) attack(more func() bool) attack {
	return attack{name: "random", do: func(*guest, *channel) error {
		for more() {
			if err := r.step(); err != nil {
				return err
			}
		}
		return r.settle()
	}}
}
