// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/internal/patience"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// session is an attack by a front end whose guest has a driver and programs. After it the front end
// gives the guest's memory and queues again, as when the guest has restarted.
func session(name string, do func(g *guest) error) attack {
	return attack{"session: " + name, 38, func(g *guest, _ *channel) error {
		if err := do(g); err != nil {
			return err
		}
		g.front.SetMemory(g.memory)
		return g.reset()
	}}
}

// refusedMessage is a session's message that must be refused, after which all goes on.
func refusedMessage(name string, r vhostuser.Request, payload []byte, file func(g *guest) int,
) attack {
	return attack{"session: " + name, 38, func(g *guest, _ *channel) error {
		var files []int
		if file != nil {
			files = append(files, file(g))
		}
		if g.front.Send(r, payload, files...) == nil {
			return fmt.Errorf("%v was accepted, want a refusal", r)
		}
		return g.channels[victim].compute(1)
	}}
}

// table is the payload of SET_MEM_TABLE.
func table(regions ...vhostuser.Region) []byte { return vhostuser.AppendMemTable(nil, regions) }

// region is memory of a guest that begins at an address, as it does for the front end.
func region(at, size uint64) vhostuser.Region {
	return vhostuser.Region{GuestAddr: at, Size: size, UserAddr: vhostusertest.UserBase + at}
}

func itsMemory(g *guest) int    { return g.memory.FDs[0] }
func anEventfd(g *guest) int    { return vhostusertest.Eventfd(g.tb) }
func shortMemory(g *guest) int  { return virtqueuetest.MemFD(g.tb, 8) }
func noFD(index uint64) []byte  { return vhostusertest.Word(index | vhostusertest.NoFD) }
func queue(index uint64) []byte { return vhostusertest.Word(index) }

func sessions() []attack {
	const all = math.MaxUint64
	list := []attack{
		refusedMessage("memory that is an eventfd", vhostuser.SetMemTable, table(region(0, 4096)),
			anEventfd),
		refusedMessage("memory beyond its file", vhostuser.SetMemTable,
			table(region(0, guestBytes+4096)), itsMemory),
		refusedMessage("memory that wraps", vhostuser.SetMemTable, table(region(all-4095, 8192)),
			itsMemory),
		refusedMessage("memory of 2^64-1 bytes", vhostuser.SetMemTable, table(region(0, all)),
			itsMemory),
		refusedMessage("memory twice at one place", vhostuser.AddMemReg,
			vhostuser.AppendRegion(queue(0), region(4096, 4096)), itsMemory),
		refusedMessage("memory without a file", vhostuser.AddMemReg,
			vhostuser.AppendRegion(queue(0), region(1<<40, 4096)), nil),
		refusedMessage("a queue that isn't there", vhostuser.SetVringNum,
			vhostusertest.State(77, 64), nil),
		refusedMessage("a queue of 3 descriptors", vhostuser.SetVringNum,
			vhostusertest.State(1, 3), nil),
		refusedMessage("a queue of 2^32-1 descriptors", vhostuser.SetVringNum,
			vhostusertest.State(1, math.MaxUint32), nil),
		refusedMessage("features that weren't offered", vhostuser.SetFeatures, queue(all), nil),
		refusedMessage("protocol features that weren't offered", vhostuser.SetProtocolFeatures,
			queue(all), nil),
		refusedMessage("kicks by memory", vhostuser.SetVringKick, queue(2), itsMemory),
		refusedMessage("kicks of a queue that isn't there", vhostuser.SetVringKick, queue(200),
			anEventfd),
		refusedMessage("calls without a descriptor", vhostuser.SetVringCall, queue(1), nil),
		refusedMessage("a log that is too small", vhostuser.SetLogBase,
			vhostuser.AppendLog(nil, 8, 0), shortMemory),
		refusedMessage("a log beyond its file", vhostuser.SetLogBase,
			vhostuser.AppendLog(nil, 1<<20, all-4095), shortMemory),
		refusedMessage("a record of what is in flight, cut short", vhostuser.SetInFlightFD,
			vhostuser.InFlight{Size: 1 << 20, Queues: 3, QueueSize: queueSize}.AppendTo(nil),
			shortMemory),
	}
	return append(list,
		session("memory is cut short while it is used", memoryIsCut),
		session("no memory while queues run", func(g *guest) error {
			_ = g.front.Send(vhostuser.SetMemTable, table())
			g.kick(0)
			g.kick(1)
			return nil
		}),
		session("other memory while a program waits", func(g *guest) error {
			for range 50 {
				_ = g.channels[victim].send(999)
				other := virtqueuetest.MemFD(g.tb, guestBytes)
				_ = g.front.Send(vhostuser.SetMemTable, table(region(0, guestBytes)), other)
				g.kick(1)
			}
			return nil
		}),
		session("nobody takes the calls", fullCalls),
		session("rings outside memory", func(g *guest) error {
			for _, at := range []uint64{0, guestBytes, all - 15, 1 << 63} {
				g.front.Stop(g.queues[1])
				address := vhostuser.VringAddr{Index: 1, Desc: at, Used: at, Avail: at}
				_ = g.front.Send(vhostuser.SetVringAddr, address.AppendTo(nil))
				_ = g.front.Send(vhostuser.SetVringKick, queue(1), g.queues[1].Kick)
				_ = g.front.Send(vhostuser.SetVringEnable, vhostusertest.State(1, 1))
				g.kick(1)
			}
			return g.hello(0)
		}),
		session("a queue starts and stops 500 times", func(g *guest) error {
			for range 500 {
				g.front.Stop(g.queues[1])
				g.front.Start(g.queues[1])
			}
			return g.hello(0)
		}),
		session("queues that are polled", func(g *guest) error {
			_ = g.front.Send(vhostuser.SetVringKick, noFD(1))
			_ = g.front.Send(vhostuser.SetVringCall, noFD(1))
			return g.hello(0)
		}),
		session("a message in pieces of a byte", inPieces),
		session("another front end beside it", func(g *guest) error {
			other, err := dial(g.socket)
			if err != nil {
				return err
			}
			defer other.Close()
			_ = other.SetDeadline(time.Now().Add(starts))
			if n, err := other.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				return fmt.Errorf("another front end: %d bytes, %w, want it turned away", n, err)
			}
			return g.channels[victim].compute(1)
		}),
	)
}

// memoryIsCut has the file of the guest's memory cut short, where the front end may do that, while
// queues are in it.
func memoryIsCut(g *guest) error {
	if err := unix.Ftruncate(g.memory.FDs[0], 4096); err != nil {
		return nil // the device has had it sealed
	}
	for range 100 {
		g.kick(0)
		g.kick(1)
	}
	return unix.Ftruncate(g.memory.FDs[0], guestBytes)
}

// fullCalls gives the device eventfds for its calls that would make it wait, as they are full.
func fullCalls(g *guest) error {
	for i, q := range g.queues {
		full, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(full)
		most := vhostusertest.Word(math.MaxUint64 - 1)
		if _, err := unix.Write(full, most); err != nil {
			return err
		}
		if err := g.front.Send(vhostuser.SetVringCall, queue(uint64(i)), full); err != nil {
			return nil // it may refuse
		}
		q.Driver.SetUsedEvent(0)
	}
	for range 20 {
		if err := g.hello(0); err != nil {
			return err
		}
	}
	return g.channels[victim].compute(1)
}

// inPieces sends a message byte by byte.
func inPieces(g *guest) error {
	m := &vhostuser.Message{Request: vhostuser.GetQueueNum, Flags: vhostuser.FlagVersion}
	for _, b := range m.AppendTo(nil) {
		if _, err := g.front.Sock.Write([]byte{b}); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	_, err := g.front.Reply(vhostuser.GetQueueNum)
	return err
}

// goes has the front end go while a kernel runs that doesn't end. All of the VM's processes must
// end.
func (g *guest) goes() error {
	left := leaks.Family(g.first)
	c := g.channels[victim]
	if err := errors.Join(c.recover(1), c.launchEndless()); err != nil {
		return err
	}
	if err := g.front.Sock.Close(); err != nil {
		return err
	}
	left = append(left, leaks.Family(g.first)...)
	for wait := patience.Of(soon); ; time.Sleep(10 * time.Millisecond) {
		left = slices.DeleteFunc(left, func(pid int) bool { return status(pid) == nil })
		if len(left) == 0 {
			return nil
		}
		if wait.Over() {
			return fmt.Errorf("the front end has gone, and processes go on: %v", left)
		}
	}
}

// settles waits until no more descriptors are open than there may be.
func settles(most int, files func() int) error {
	for wait := patience.Of(soon); files() > most; time.Sleep(10 * time.Millisecond) {
		if wait.Over() {
			return fmt.Errorf("%d descriptors, want at most %d", files(), most)
		}
	}
	return nil
}
