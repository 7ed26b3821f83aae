// SPDX-License-Identifier: Apache-2.0

// Package control is the control queue of a device: it takes the driver's requests, has the device
// do what they ask, and answers.
//
// # Who owns what
//
// A Queue has the lock for what lasts longer than one run, from a start to the next stop. While it
// runs, one goroutine owns the rings (serving), and takes no lock. Requests that take long have
// goroutines of their own, but are answered by that one. Under its lock, which is never held while
// waiting, a Queue calls Config.Expect, Again and Remains; all else of Config is called without it.
//
// # Who may lie
//
// The guest. A request that makes no sense is answered, or returned with nothing written; a queue
// that makes no sense is left alone.
//
// # Files
//
// queue.go (starts and stops), control.go (serves), late.go (answers after the queue has stopped),
// watch.go (the driver waits for settings).
package control

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// Config is what the control queue needs of the device: the functions that do what is asked, and
// what to tell the driver. Functions that return a status may take long.
type Config struct {
	Greet        func() // our driver has greeted
	OpenChannel  func(channel int, pid int32, comm string, a Asking) (status uint32)
	CloseChannel func(channel int) (status uint32)
	ExportObject func(channel int, number uint32) (handle, status uint32)
	ImportObject func(channel int, handle uint32) (number, status uint32)
	Exports      *exports.Exports
	// MayGo is told that the driver is ready for the device to be away, and its key; ok says
	// whether it was asked. IsBack is told that it is back.
	MayGo  func(key [16]byte) (seconds uint32, ok bool)
	IsBack func(key [16]byte) (status uint32)

	// Expect is told at each start whether our driver has greeted, and Again whether it had greeted
	// the previous device process.
	Expect func(greeted bool)
	Again  func()

	Channels            uint32
	Version, Generation uint32                // told with HELLO
	Vouchers            uint64                // where the driver vouched for pages before
	Told                func() *wire.Settings // that hold; they aren't changed
	Parked              *atomic.Int32         // requests that wait for what may never come
	Exit                time.Duration         // for which others are awaited at the end
	Remains             *remains.Remains      // for the device process after this one; nil: none

	// Guard runs a part of this package, and survives its faults.
	Guard func(part string, f func()) bool
	Log   *logrus.Entry

	vouched func(vouchers uint64) // where a driver that greets vouches for pages; the Queue's
}

// Asking is a request of the guest's that takes long.
type Asking struct {
	// closed when the control queue stops: requests give up what they wait for, where they can
	Quit    <-chan struct{}
	Dropped <-chan struct{} // closed when its driver is gone
	// the VM's GPU that the program of an OPEN uses first, as it says; any number
	GPU uint32
}

// serving serves queue 0 from a start to the next stop. Its goroutine owns the queue, and answers
// requests that took long, which come through done.
type serving struct {
	Config
	rings  virtqueue.Config
	queue  *virtqueue.Queue
	record *inflight.Region // of what is in flight; nil: none is kept
	mem    *guestmem.Memory
	call   *vhostuser.FD
	kick   *vhostuser.Waiter
	hello  bool
	open   int // requests that are not answered yet

	kicks   chan struct{}
	done    chan answer
	dropped chan struct{} // closed when the driver is gone
	news    chan struct{} // the settings have changed
	watch   *watch        // the driver waits for that
	change  chan func()   // run by the goroutine, which owns the queue
	quit    chan struct{}
	ended   chan struct{}
}

// answer is the response to a request.
type answer struct {
	head     uint16
	address  uint64 // where the response goes
	response wire.ControlResponse
	settings *wire.Settings // follow the response; nil: nothing does
}

// serve takes over the queue, the requests in it that still wait for an answer (late, may be nil),
// and the record (may be nil). hello says whether a driver has greeted.
func serve(
	config Config, mem *guestmem.Memory, q vhostuser.QueueConfig, late *unanswered,
	record *inflight.Region,
) (c *serving, hello bool, err error) {
	l, err := queues.NewLease(q)
	if err != nil {
		_ = record.Close()
		return nil, false, err
	}
	c = &serving{
		Config: config, mem: mem, record: record, call: l.Call, kicks: make(chan struct{}, 1),
		done:    make(chan answer, wire.MaxChannels),
		dropped: make(chan struct{}), change: make(chan func()), news: make(chan struct{}, 1),
		quit: make(chan struct{}), ended: make(chan struct{}),
		rings: virtqueue.Config{
			Size: q.Size, Desc: q.Desc, Avail: q.Avail, Used: q.Used, Base: q.Base,
			EventIdx: q.EventIdx(), Indirect: q.Indirect(), Record: record.Queue(0),
		},
	}
	if late != nil {
		c.open, c.done, c.dropped, c.rings.InFlight = late.open, late.done, late.dropped,
			late.heads
	}
	if c.queue, err = virtqueue.New(mem, c.rings); err != nil {
		l.Close()
		_ = record.Close()
		return nil, false, fmt.Errorf("control queue: %w", err)
	}
	if c.kick, err = l.Kick.Waiter(); err != nil {
		l.Close()
		c.queue.Close()
		_ = record.Close()
		return nil, false, err
	}
	// What the previous process answered may not have been signalled.
	if c.queue.Base() != q.Base && c.call != nil {
		_ = c.call.Signal()
	}
	hello = c.queue.Base() != 0 || queues.Returned(q, mem)
	c.hello = hello
	go c.Guard("the control queue's kicks", c.readKicks)
	go c.run()
	return c, hello, nil
}

// readKicks turns kicks into messages of a Go channel.
func (c *serving) readKicks() {
	for c.kick.Wait() == nil {
		select {
		case c.kicks <- struct{}{}:
		default:
		}
	}
}

// run serves the queue until it stops. A fault costs the request at which it happened.
func (c *serving) run() {
	defer close(c.ended)
	for !c.Guard("the control queue", c.loop) && !await.Closed(c.quit) {
	}
}

// loop is the queue's goroutine.
func (c *serving) loop() {
	for {
		if c.drain() {
			// A driver that asks without end can't keep the device from stopping.
			select {
			case c.kicks <- struct{}{}:
			default:
			}
		}
		select {
		case <-c.kicks:
		case a := <-c.done:
			c.finish(a)
		case f := <-c.change:
			f()
		case <-c.news:
			c.lookAtSettings()
		case <-c.quit:
			c.endWatch()
			c.finishAll()
			return
		}
	}
}

// drain takes requests, as many as the queue holds, and says whether there are more. Otherwise a
// kick will come for the next.
func (c *serving) drain() (more bool) {
	for range c.rings.Size {
		chain, ok, err := c.queue.Pop()
		var bad *virtqueue.ChainError
		switch {
		case errors.As(err, &bad):
			_ = c.queue.Push(bad.Head, 0)
			c.notify()
			continue
		case err != nil:
			c.Log.WithError(err).Warn("control queue broke")
			return false
		case ok:
			c.request(chain)
			continue
		}
		break
	}
	more, err := c.queue.EnableKick()
	return more && err == nil
}

// finish answers a request that took long.
func (c *serving) finish(a answer) {
	c.open--
	c.respond(a)
}

func (c *serving) notify() {
	if c.queue.NeedsNotify() && c.call != nil {
		_ = c.call.Signal()
	}
}

func (c *serving) respond(a answer) {
	var b [RoomForSettings]byte
	a.response.Encode(b[:])
	written := uint32(wire.ControlResponseSize)
	if a.settings != nil {
		a.settings.Encode(b[wire.ControlResponseSize:])
		written = uint32(len(b))
	}
	if a.address == 0 || c.mem.Write(b[:written], a.address) != nil {
		written = 0
	}
	_ = c.queue.Push(a.head, written)
	c.notify()
}

// request executes one request, now or on a goroutine of its own.
func (c *serving) request(chain *virtqueue.Chain) {
	a := answer{head: chain.Head()}
	var raw [wire.ControlRequestSize]byte
	if _, err := chain.ReadAt(raw[:], 0); err != nil ||
		chain.WriteLen() < wire.ControlResponseSize ||
		chain.Writable()[0].Len < wire.ControlResponseSize {
		c.respond(a)
		return
	}
	a.address = chain.Writable()[0].Addr
	var r wire.ControlRequest
	r.Decode(raw[:])
	roomy := chain.Writable()[0].Len >= RoomForSettings
	if r.Type == wire.ControlSettings && c.hello && roomy {
		c.begin(&watch{a, r.Number})
		return
	}
	if work := c.obey(&r, &a.response); work != nil {
		c.open++
		go func() {
			if !c.Guard("a request", func() { work(&a.response) }) {
				a.response.Status = wire.StatusNoWorker
			}
			if r.Type == wire.ControlHello && roomy {
				a.settings = c.Told()
			}
			c.done <- a
		}()
		return
	}
	c.respond(a)
}

// obey answers a request, or returns the work that must be done for the answer.
func (c *serving) obey(
	r *wire.ControlRequest, out *wire.ControlResponse,
) (work func(*wire.ControlResponse)) {
	channel := int(r.Channel)
	switch {
	case r.Type == wire.ControlHello && r.Number != c.Version:
		c.Log.WithField("driver", r.Number).WithField("device", c.Version).
			Warn("guest driver speaks another protocol version: install the guest package of " +
				"this version")
		out.Status = wire.StatusBadVersion
	case r.Type == wire.ControlHello:
		if !c.hello {
			c.Exports.Clear()
		}
		c.hello = true
		vouchers := binary.LittleEndian.Uint64(r.Comm[:])
		return func(out *wire.ControlResponse) {
			c.vouched(vouchers)
			c.Greet()
			out.Number = c.Generation
		}
	case c.hello && r.Type == wire.ControlPing:
		return nil
	case c.hello && r.Type == wire.ControlAway:
		ok := false
		if out.Number, ok = c.MayGo(r.Comm); !ok {
			out.Number, out.Status = 0, wire.StatusBadRequest
		}
	case c.hello && r.Type == wire.ControlBack:
		return func(out *wire.ControlResponse) { out.Status = c.IsBack(r.Comm) }
	case c.hello && r.Type == wire.ControlRelease:
		return func(out *wire.ControlResponse) { out.Status = c.Exports.Release(r.Number) }
	case !c.hello || r.Channel >= c.Channels:
		out.Status = wire.StatusBadRequest
	case r.Type == wire.ControlOpen:
		ask := Asking{c.quit, c.dropped, r.Number}
		comm := string(bytes.TrimRight(r.Comm[:], "\x00"))
		return func(out *wire.ControlResponse) {
			out.Status = c.OpenChannel(channel, r.Pid, comm, ask)
		}
	case r.Type == wire.ControlClose:
		return func(out *wire.ControlResponse) { out.Status = c.CloseChannel(channel) }
	case r.Type == wire.ControlExport:
		return func(out *wire.ControlResponse) {
			out.Number, out.Status = c.ExportObject(channel, r.Number)
		}
	case r.Type == wire.ControlImport:
		return func(out *wire.ControlResponse) {
			out.Number, out.Status = c.ImportObject(channel, r.Number)
		}
	default:
		out.Status = wire.StatusBadRequest
	}
	return nil
}

// do runs f on the queue's goroutine, which never takes the Queue's lock: the caller may hold it.
func (c *serving) do(f func()) {
	ran := make(chan struct{})
	select {
	case c.change <- func() { f(); close(ran) }:
		<-ran
	case <-c.ended:
	}
}

// setCall changes the descriptor by which the queue signals.
func (c *serving) setCall(call *vhostuser.FD) (err error) {
	var dup *vhostuser.FD
	if call != nil {
		if dup, err = call.Dup(); err != nil {
			return err
		}
	}
	c.do(func() {
		if c.call != nil {
			_ = c.call.Close()
		}
		if c.call = dup; dup != nil {
			_ = dup.Signal() // a signal by the old one may be lost
		}
	})
	return nil
}

// setMemory moves the queue to new memory.
func (c *serving) setMemory(mem *guestmem.Memory) (err error) {
	c.do(func() {
		config := c.rings
		config.Base, config.InFlight = c.queue.Base(), c.queue.AppendInFlight(nil)
		var q *virtqueue.Queue
		if q, err = virtqueue.New(mem, config); err == nil {
			c.queue.Close()
			c.queue, c.mem = q, mem
		}
	})
	return err
}

// stop ends the queue's goroutine and returns the next avail index, and the requests that wait for
// an answer.
func (c *serving) stop() (uint16, *unanswered) {
	close(c.quit)
	<-c.ended
	_ = c.kick.Close()
	if c.call != nil {
		_ = c.call.Close()
	}
	base := c.queue.Base()
	late := &unanswered{base, c.open, c.queue.AppendInFlight(nil), c.done, c.dropped}
	c.queue.Close()
	_ = c.record.Close()
	return base, late
}
