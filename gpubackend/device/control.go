// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// requests are what the control queue needs of the device: the functions that do what is asked, and
// what it tells. All are called without a lock held, and those that return a status may take long.
type requests struct {
	greet        func() // our driver has greeted
	openChannel  func(channel int, p program, a asking) (status uint32)
	closeChannel func(channel int) (status uint32)
	exportObject func(channel int, number uint32) (handle, status uint32)
	importObject func(channel int, handle uint32) (number, status uint32)
	exports      *exports.Exports

	channels            uint32
	version, generation uint32                         // told with HELLO
	told                *atomic.Pointer[wire.Settings] // that hold
	parked              *atomic.Int32                  // requests that wait for what may never come
	exit                time.Duration                  // for which others are awaited at the end

	guard func(part string, f func()) bool
	log   *logrus.Entry
}

// control serves queue 0. Its goroutine owns the queue; requests that take long are answered
// through done.
type control struct {
	requests
	config virtqueue.Config
	queue  *virtqueue.Queue
	record *inflight.Region // of what is in flight in it; nil: none is kept
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

// newControl takes the queue, and what is yet to be answered in it, unless late is nil. It owns the
// record, unless that is nil. hello says whether a driver has greeted.
func newControl(
	r requests, mem *guestmem.Memory, q vhostuser.QueueConfig, late *lateAnswers,
	record *inflight.Region,
) (c *control, hello bool, err error) {
	l, err := queues.NewLease(q)
	if err != nil {
		_ = record.Close()
		return nil, false, err
	}
	c = &control{
		requests: r, mem: mem, record: record, call: l.Call, kicks: make(chan struct{}, 1),
		done:    make(chan answer, wire.MaxChannels),
		dropped: make(chan struct{}), change: make(chan func()), news: make(chan struct{}, 1),
		quit: make(chan struct{}), ended: make(chan struct{}),
		config: virtqueue.Config{
			Size: q.Size, Desc: q.Desc, Avail: q.Avail, Used: q.Used, Base: q.Base,
			EventIdx: q.EventIdx(), Indirect: q.Indirect(), Record: record.Queue(0),
		},
	}
	if late != nil {
		c.open, c.done, c.dropped, c.config.InFlight = late.open, late.done, late.dropped,
			late.heads
	}
	if c.queue, err = virtqueue.New(mem, c.config); err != nil {
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
	// What was answered before this process may not have been signalled.
	if c.queue.Base() != q.Base && c.call != nil {
		_ = c.call.Signal()
	}
	hello = c.queue.Base() != 0
	c.hello = hello
	go c.guard("the control queue's kicks", c.readKicks)
	go c.run()
	return c, hello, nil
}

// readKicks turns the kick descriptor into a channel.
func (c *control) readKicks() {
	for c.kick.Wait() == nil {
		select {
		case c.kicks <- struct{}{}:
		default:
		}
	}
}

// run serves the queue until it stops. A fault costs the request at which it happened.
func (c *control) run() {
	defer close(c.ended)
	for !c.guard("the control queue", c.serve) && !await.Closed(c.quit) {
	}
}

// serve is the queue's goroutine.
func (c *control) serve() {
	for {
		if c.drain() {
			// A driver that never stops asking doesn't keep the device from stopping.
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
func (c *control) drain() (more bool) {
	for range c.config.Size {
		chain, ok, err := c.queue.Pop()
		var bad *virtqueue.ChainError
		switch {
		case errors.As(err, &bad):
			_ = c.queue.Push(bad.Head, 0)
			c.notify()
			continue
		case err != nil:
			c.log.WithError(err).Warn("control queue broke")
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
func (c *control) finish(a answer) {
	c.open--
	c.respond(a)
}

func (c *control) notify() {
	if c.queue.NeedsNotify() && c.call != nil {
		_ = c.call.Signal()
	}
}

func (c *control) respond(a answer) {
	var b [roomForSettings]byte
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

// request obeys one request, now or on a goroutine of its own.
func (c *control) request(chain *virtqueue.Chain) {
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
	roomy := chain.Writable()[0].Len >= roomForSettings
	if r.Type == wire.ControlSettings && c.hello && roomy {
		c.begin(&watch{a, r.Number})
		return
	}
	if work := c.obey(&r, &a.response); work != nil {
		c.open++
		go func() {
			if !c.guard("a request", func() { work(&a.response) }) {
				a.response.Status = wire.StatusNoWorker
			}
			if r.Type == wire.ControlHello && roomy {
				a.settings = c.told.Load()
			}
			c.done <- a
		}()
		return
	}
	c.respond(a)
}

// obey answers a request, or returns what has to be done for the answer.
func (c *control) obey(
	r *wire.ControlRequest, out *wire.ControlResponse,
) (work func(*wire.ControlResponse)) {
	channel := int(r.Channel)
	switch {
	case r.Type == wire.ControlHello && r.Number != c.version:
		c.log.WithField("driver", r.Number).WithField("device", c.version).
			Warn("guest driver speaks another protocol version: install the guest package of " +
				"this version")
		out.Status = wire.StatusBadVersion
	case r.Type == wire.ControlHello:
		if !c.hello {
			c.exports.Clear()
		}
		c.hello = true
		return func(out *wire.ControlResponse) {
			c.greet()
			out.Number = c.generation
		}
	case c.hello && r.Type == wire.ControlPing:
		return nil
	case c.hello && r.Type == wire.ControlRelease:
		return func(out *wire.ControlResponse) { out.Status = c.exports.Release(r.Number) }
	case !c.hello || r.Channel >= c.channels:
		out.Status = wire.StatusBadRequest
	case r.Type == wire.ControlOpen:
		ask := asking{c.quit, c.dropped}
		comm := string(bytes.TrimRight(r.Comm[:], "\x00"))
		return func(out *wire.ControlResponse) {
			out.Status = c.openChannel(channel, program{r.Pid, comm}, ask)
		}
	case r.Type == wire.ControlClose:
		return func(out *wire.ControlResponse) { out.Status = c.closeChannel(channel) }
	case r.Type == wire.ControlExport:
		return func(out *wire.ControlResponse) {
			out.Number, out.Status = c.exportObject(channel, r.Number)
		}
	case r.Type == wire.ControlImport:
		return func(out *wire.ControlResponse) {
			out.Number, out.Status = c.importObject(channel, r.Number)
		}
	default:
		out.Status = wire.StatusBadRequest
	}
	return nil
}

// do runs f on the queue's goroutine, which takes no lock of the device's: the caller may hold it.
func (c *control) do(f func()) {
	ran := make(chan struct{})
	select {
	case c.change <- func() { f(); close(ran) }:
		<-ran
	case <-c.ended:
	}
}

func (c *control) setCall(call *vhostuser.FD) (err error) {
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
			_ = dup.Signal() // what was signalled in the old way may be lost
		}
	})
	return nil
}

// setMemory moves the queue to new memory.
func (c *control) setMemory(mem *guestmem.Memory) (err error) {
	c.do(func() {
		config := c.config
		config.Base, config.InFlight = c.queue.Base(), c.queue.AppendInFlight(nil)
		var q *virtqueue.Queue
		if q, err = virtqueue.New(mem, config); err == nil {
			c.queue.Close()
			c.queue, c.mem = q, mem
		}
	})
	return err
}

// stop ends the queue's goroutine and returns the next avail index, and what is yet to be answered.
func (c *control) stop() (uint16, *lateAnswers) {
	close(c.quit)
	<-c.ended
	_ = c.kick.Close()
	if c.call != nil {
		_ = c.call.Close()
	}
	base := c.queue.Base()
	late := &lateAnswers{base, c.open, c.queue.AppendInFlight(nil), c.done, c.dropped}
	c.queue.Close()
	_ = c.record.Close()
	return base, late
}
