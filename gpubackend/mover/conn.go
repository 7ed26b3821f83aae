// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// conn is a worker's connection. The loop owns it, except the reading of its socket.
type conn struct {
	socket  *net.UnixConn
	ring    *ring
	wake    int // wakes the worker, and is readable when it wakes the mover
	head    uint32
	tail    uint32 // of the completions
	flying  uint32
	staging map[uint32]*lent
	next    uint32
	record  []byte
	runs    []wire.Run
	spare   [][]span // of jobs that have ended
	waiting *job     // decoded, but the engine has no room for it
	closed  bool

	vouchers vouchers.Exposure
	listed   []wire.Run // what a voucher's places are
	dirty    *dirtylog.Switch

	quota   *quota
	taken   taken // of it
	refused bool  // memory that it lent was refused, and logged
}

// newConn takes over the mover's end for a worker. Its driver vouches for pages in v.
func newConn(e link.Half, q *quota, v vouchers.Exposure, dirty *dirtylog.Switch) (*conn, error) {
	worker, err := socket.Conn(e.Conn)
	if err != nil {
		handover.CloseFiles([]int{e.Ring, e.Wake})
		return nil, err
	}
	c := &conn{socket: worker, wake: e.Wake, staging: make(map[uint32]*lent),
		record: make([]byte, maxRecord), quota: q, vouchers: v, dirty: dirty}
	if c.ring, err = openRing(e.Ring); err != nil {
		c.release(nil)
		return nil, err
	}
	return c, nil
}

// sendPatience is how long a worker may keep the loop waiting by not reading its socket. After that
// it loses the connection.
const sendPatience = 10 * time.Millisecond

// send doesn't use a deadline of the socket, which could pass before the first try, while this
// thread waits for a processor.
func (c *conn) send(m message, fds ...int) error {
	if events, err := c.await(unix.POLLOUT, sendPatience); err != nil {
		return fmt.Errorf("send: %w", err)
	} else if events == 0 {
		return fmt.Errorf("send: the worker doesn't read: %w", os.ErrDeadlineExceeded)
	}
	return sendMessage(c.socket, m, fds...)
}

// left says whether the worker has closed its end, perhaps by ending.
func (c *conn) left() bool {
	events, err := c.await(unix.POLLRDHUP, 0)
	return err != nil || events&(unix.POLLHUP|unix.POLLRDHUP|unix.POLLERR) != 0
}

// await waits for any of some events of the socket and returns those that came.
func (c *conn) await(events int16, patience time.Duration) (int16, error) {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	fds := []unix.PollFd{{Events: events}}
	var failed error
	timeout := unix.NsecToTimespec(patience.Nanoseconds())
	err = raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		for again := true; again; again = failed == unix.EINTR {
			_, failed = unix.Ppoll(fds, &timeout, nil)
		}
	})
	return fds[0].Revents, errors.Join(err, failed)
}

// release gives everything back. No job of the connection is under way.
func (c *conn) release(e engine) {
	for _, s := range c.staging {
		c.unmap(e, s)
	}
	c.staging = nil
	if c.ring != nil {
		c.ring.close()
	}
	if c.wake >= 0 {
		unix.Close(c.wake)
	}
	c.socket.Close()
}

// attach answers a worker that lends memory, which must not be the guest's.
func (c *conn) attach(e engine, guest *memory, fd int, start, bytes uint64) error {
	answer := message{kind: messageAnswer}
	s, refused := staging(nil), error(errGuests)
	if !guest.has(fd) {
		s, refused = c.mapped(e, fd, start, bytes)
	}
	if refused == nil {
		c.next++
		c.staging[c.next] = &lent{staging: s}
		answer.number = c.next
	} else {
		answer.value = refusal(refused)
	}
	if err := c.send(answer); err != nil {
		c.closed = true
		return err
	}
	return refused
}

// mapped maps what a worker lends, if its quota allows it.
func (c *conn) mapped(e engine, fd int, start, bytes uint64) (staging, error) {
	if err := c.quota.take(&c.taken, bytes); err != nil {
		return nil, err
	}
	s, err := e.attach(fd, start, bytes)
	if err != nil {
		c.quota.give(&c.taken, bytes)
	}
	return s, err
}

// unmap undoes mapped. No job uses the memory.
func (c *conn) unmap(e engine, l *lent) {
	e.detach(l.staging)
	c.quota.give(&c.taken, l.size())
}

// detach gives memory back and answers, now or with the last job that uses it.
func (c *conn) detach(e engine, number uint32) error {
	l := c.staging[number]
	if l == nil {
		return fmt.Errorf("%w: memory %d was asked back, but isn't lent", errProtocol, number)
	}
	delete(c.staging, number)
	l.gone = true
	return c.handBack(e, l)
}

// handBack detaches memory that was asked back, if no job uses it.
func (c *conn) handBack(e engine, l *lent) error {
	if !l.gone || l.jobs > 0 {
		return nil
	}
	c.unmap(e, l)
	return c.send(message{kind: messageAnswer})
}

// take starts a request, if there is one and room for it. It says whether it did anything.
func (c *conn) take(e engine, m *memory) (bool, error) {
	if c.waiting != nil {
		if !e.start(c.waiting) {
			return false, nil
		}
		c.waiting = nil
		return true, nil
	}
	available := c.ring.load(offRequestTail) - c.head
	if available == 0 {
		return false, nil
	}
	if available > requestBytes {
		return false, fmt.Errorf("%w: %d bytes of requests", errProtocol, available)
	}
	unread := c.tail - c.ring.load(offCompletionHead)
	if unread > completions {
		return false,
			fmt.Errorf("%w: %d completions taken that were not given", errProtocol, -unread)
	}
	if unread+c.flying >= completions {
		return false, nil
	}
	q, ok, err := c.read(available)
	if err != nil || !ok {
		return err == nil, err
	}
	c.begin(e, m, &q)
	return true, nil
}

// read copies the next record out of the ring and decodes it.
func (c *conn) read(available uint32) (request, bool, error) {
	size, err := c.ring.recordSize(c.head, available)
	if err != nil {
		return request{}, false, err
	}
	// Of a filler only the head is read; no other record is longer than maxRecord.
	n := copy(c.record[:min(size, maxRecord)], c.ring.recordAt(c.head))
	q, ok, err := decodeRequest(c.record[:n], c.runs[:0])
	if err != nil {
		return q, false, err
	}
	if ok && uint32(n) != size {
		return q, false, fmt.Errorf("%w: record of %d bytes", errProtocol, size)
	}
	if ok {
		c.runs = q.runs
	}
	c.head += size
	c.ring.store(offRequestHead, c.head)
	return q, ok, nil
}

// begin checks a request and starts it.
func (c *conn) begin(e engine, m *memory, q *request) {
	j := &job{conn: c, sequence: q.sequence, offset: q.offset, toDevice: q.toDevice}
	c.flying++
	s := c.staging[q.staging]
	if s == nil || q.offset > s.size() {
		c.end(e, j, statusRange)
		return
	}
	var ok bool
	j.staging = s
	s.jobs++
	runs, is := c.runsOf(&j.use, m, q)
	if is != statusDone {
		c.end(e, j, is)
		return
	}
	if j.spans, j.bytes, ok = m.appendSpans(c.spans(), runs, s.size()-q.offset); !ok {
		c.end(e, j, statusRange)
		return
	}
	if j.bytes == 0 {
		c.end(e, j, statusDone)
		return
	}
	if !e.start(j) {
		c.waiting = j
	}
}

// runsOf gives the runs of a request. If the driver vouches for pages, they are those for which it
// does, and the job's use of them begins.
func (c *conn) runsOf(u *vouchedUse, m *memory, q *request) (runs []wire.Run, s status) {
	if c.vouchers.Root == 0 {
		if q.voucher != 0 {
			return nil, statusVoucher
		}
		return q.runs, statusDone
	}
	if *u, s = beginVouched(c.vouchers, m, q.voucher); s != statusDone {
		return nil, s
	}
	c.listed, s = u.runs(m, q, c.listed[:0])
	return c.listed, s
}

// spans returns an empty list for a job; end takes it back.
func (c *conn) spans() []span {
	last := len(c.spare) - 1
	if last < 0 {
		return nil
	}
	p := c.spare[last]
	c.spare = c.spare[:last]
	return p
}

// maxSpare bounds the lists that a connection keeps.
const maxSpare = 16

// end writes the completion of a job, and wakes the worker if it sleeps.
func (c *conn) end(e engine, j *job, s status) {
	c.flying--
	j.use.end(c.dirty) // before the worker can give the pages back
	if j.staging != nil {
		j.staging.jobs--
		if err := c.handBack(e, j.staging); err != nil {
			c.closed = true
		}
	}
	if cap(j.spans) > 0 && len(c.spare) < maxSpare {
		c.spare = append(c.spare, j.spans[:0])
		j.spans = nil
	}
	if c.closed {
		return
	}
	c.ring.complete(c.tail, j.sequence, s)
	c.tail++
	c.ring.store(offCompletionTail, c.tail)
	if c.ring.load(offWorkerSleeping) != 0 && c.ring.swap(offWorkerSleeping, 0) != 0 {
		notify(c.wake)
	}
}

// pending says whether the worker has written requests, or there are decoded ones.
func (c *conn) pending() bool {
	return c.waiting == nil && c.ring.load(offRequestTail) != c.head &&
		c.tail-c.ring.load(offCompletionHead)+c.flying < completions
}
