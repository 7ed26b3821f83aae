// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Client is a worker's end of its connection. It belongs to one goroutine.
//
// Copies run fastest when the staging offset and the first guest address are the same modulo 16.
type Client struct {
	conn     *net.UnixConn
	ring     *ring
	ready    int    // an eventfd that is always readable; -1 until it is needed
	wake     int    // wakes the mover, and is readable when it wakes this side
	tail     uint32 // of the requests
	head     uint32 // of the completions
	sequence uint64
	requests map[uint64]*copying
	backlog  []byte // records for which the ring had no room
	record   []byte
	encoded  []wire.Run // places of a record
	places   []moves.Place
	slept    bool
	empty    int   // polls since a copy last ended
	err      error // why the connection can't be used any more
}

var _ moves.Mover = (*Client)(nil)

// copying is a copy whose records have not all been answered.
type copying struct {
	id   uint64
	left int
	err  error
}

// NewClient takes over the worker's end.
func NewClient(e link.Half) (*Client, error) {
	conn, err := socket.Conn(e.Conn)
	if err != nil {
		handover.CloseFiles([]int{e.Ring, e.Wake})
		return nil, err
	}
	r, err := openRing(e.Ring)
	if err != nil {
		handover.CloseFiles([]int{e.Wake})
		return nil, errors.Join(err, conn.Close())
	}
	return &Client{conn: conn, ring: r, wake: e.Wake, ready: -1,
		requests: make(map[uint64]*copying)}, nil
}

// Attach lends bytes of fd's memory from start on, a multiple of 2 MiB. fd stays the caller's.
func (c *Client) Attach(fd int, start, bytes uint64) (uint32, error) {
	m, err := c.ask(message{kind: messageAttach, number: uint32(start / startUnit), value: bytes},
		fd)
	if err != nil {
		return 0, fmt.Errorf("attach: %w", err)
	}
	if s := status(m.value); s >= deviceStatus {
		return 0, fmt.Errorf("attach: %w: %w", moves.ErrRefused, s.err())
	}
	if m.value != 0 {
		return 0, fmt.Errorf("attach: %w", moves.ErrRefused)
	}
	return m.number, nil
}

// Detach takes lent memory back. It waits until no copy uses it.
func (c *Client) Detach(number uint32) error {
	if _, err := c.ask(message{kind: messageDetach, number: number}); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	return nil
}

// ask sends a message and waits for its answer.
func (c *Client) ask(m message, fds ...int) (message, error) {
	if c.err != nil {
		return message{}, c.err
	}
	if err := sendMessage(c.conn, m, fds...); err != nil {
		return message{}, err
	}
	answer, err := readMessage(c.conn)
	if err == nil && answer.kind != messageAnswer {
		err = fmt.Errorf("answer %d: %w", answer.kind, errProtocol)
	}
	return answer, err
}

// Start queues a copy. It doesn't wait, and keeps nothing of m.
func (c *Client) Start(m *moves.Move) error {
	if c.err != nil {
		return c.err
	}
	op := &copying{id: m.ID}
	q := request{staging: m.Staging, offset: m.Offset, toDevice: m.ToDevice, voucher: m.Voucher}
	runs := m.Runs
	c.places = append(c.places[:0], m.Places...)
	places := c.places
	for {
		some := runs[:min(len(runs), maxRuns)]
		runs = runs[len(some):]
		if q.runs = some; m.Voucher != 0 {
			c.encoded, places = placesOf(c.encoded[:0], places, some)
			q.runs = c.encoded
		}
		c.sequence++
		q.sequence = c.sequence
		op.left++
		c.requests[q.sequence] = op
		c.record = appendRecord(c.record[:0], &q)
		c.put(c.record)
		q.offset += runsTotal(some)
		if len(runs) == 0 {
			break
		}
	}
	c.publish()
	return nil
}

// placesOf appends, as they are in a record, the places that hold the first runs, and returns the
// rest of the places, which it changes.
func placesOf(dst []wire.Run, places []moves.Place, runs []wire.Run) ([]wire.Run, []moves.Place) {
	bytes, whole := uint64(0), uint32(0) // of the first place
	for i := 0; i < len(runs) && len(places) > 0; i++ {
		bytes += runs[i].Bytes
		whole++
		if p := &places[0]; bytes >= p.Bytes {
			dst = append(dst, encoded(p, p.Bytes))
			places, bytes, whole = places[1:], 0, 0
		}
	}
	if bytes > 0 {
		p := &places[0]
		dst = append(dst, encoded(p, bytes))
		p.Run, p.Offset, p.Bytes = p.Run+whole, 0, p.Bytes-bytes
	}
	return dst, places
}

// encoded is the beginning of a place as it is in a record.
func encoded(p *moves.Place, bytes uint64) wire.Run {
	return wire.Run{Address: uint64(p.Run)<<placeShift | p.Offset, Bytes: bytes}
}

func runsTotal(runs []wire.Run) (n uint64) {
	for _, r := range runs {
		n += r.Bytes
	}
	return n
}

// put writes a record to the ring, or adds it to those that wait for room.
func (c *Client) put(record []byte) {
	if len(c.backlog) > 0 || !c.write(record) {
		c.backlog = append(c.backlog, record...)
	}
}

func (c *Client) write(record []byte) bool {
	free := requestBytes - (c.tail - c.ring.load(offRequestHead))
	end := requestBytes - c.tail%requestBytes
	need := uint32(len(record))
	if need > end {
		need += end
	}
	if free > requestBytes || need > free {
		return false
	}
	if uint32(len(record)) > end {
		filler := c.ring.recordAt(c.tail)
		c.tail += end
		wireFiller(filler)
	}
	copy(c.ring.recordAt(c.tail), record)
	c.tail += uint32(len(record))
	return true
}

// publish shows the mover what was written, and wakes it if it sleeps.
func (c *Client) publish() {
	c.ring.store(offRequestTail, c.tail)
	if c.ring.load(offMoverSleeping) != 0 && c.ring.swap(offMoverSleeping, 0) != 0 {
		notify(c.wake)
	}
}

// Poll appends the copies that have ended to dst. If there are none it costs two loads. The error
// says that the mover is gone.
func (c *Client) Poll(dst []moves.Completion) ([]moves.Completion, error) {
	if c.err != nil {
		return dst, c.err
	}
	if c.slept {
		c.slept = false
		c.ring.store(offWorkerSleeping, 0)
		if !drain(c.wake) || c.gone() {
			c.err = ErrClosed
			return dst, c.err
		}
	}
	tail := c.ring.load(offCompletionTail)
	if c.head == tail && c.missing() {
		return dst, c.err
	}
	for ; c.head != tail; c.head++ {
		sequence, s := c.ring.completion(c.head)
		dst = c.ended(dst, sequence, s)
	}
	c.ring.store(offCompletionHead, tail)
	if len(c.backlog) > 0 {
		c.retry()
	}
	return dst, nil
}

// emptyPolls is how many polls may find nothing before the connection is checked.
const emptyPolls = 1 << 14

// missing checks, now and then, whether the mover is gone while copies are expected.
func (c *Client) missing() bool {
	if c.empty++; c.empty < emptyPolls || len(c.requests) == 0 {
		return false
	}
	c.empty = 0
	if c.gone() {
		c.err = ErrClosed
		return true
	}
	return false
}

func (c *Client) ended(dst []moves.Completion, sequence uint64, s status) []moves.Completion {
	op := c.requests[sequence]
	if op == nil {
		return dst
	}
	delete(c.requests, sequence)
	if err := s.err(); err != nil && op.err == nil {
		op.err = err
	}
	if op.left--; op.left > 0 {
		return dst
	}
	return append(dst, moves.Completion{ID: op.id, Err: op.err})
}

// retry writes waiting records while there is room.
func (c *Client) retry() {
	b := c.backlog
	for len(b) > 0 {
		n := recordLength(b)
		if !c.write(b[:n]) {
			break
		}
		b = b[n:]
	}
	if len(b) == len(c.backlog) {
		return
	}
	c.backlog = append(c.backlog[:0], b...)
	c.publish()
}

// FD is readable once Poll has news. A call of FD announces that the caller is going to sleep.
func (c *Client) FD() int {
	c.slept = true
	c.ring.store(offWorkerSleeping, 1)
	if c.ring.load(offCompletionTail) != c.head || c.gone() {
		return c.always()
	}
	return c.wake
}

// always is a descriptor that is always readable.
func (c *Client) always() int {
	if c.ready < 0 {
		fd, err := unix.Eventfd(1, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return c.wake
		}
		c.ready = fd
	}
	return c.ready
}

// gone says whether the mover has closed the connection. Between calls of Attach it sends nothing.
func (c *Client) gone() bool {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return true
	}
	var b [1]byte
	closed := false
	err = raw.Control(func(fd uintptr) {
		n, _, e := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed = e == nil && n == 0 || e != nil && e != syscall.EAGAIN && e != syscall.EINTR
	})
	return closed || err != nil
}

// Close ends the connection.
func (c *Client) Close() error {
	c.err = ErrClosed
	if c.ring == nil {
		return nil
	}
	c.ring.close()
	c.ring = nil
	handover.CloseFiles([]int{c.wake})
	if c.ready >= 0 {
		unix.Close(c.ready)
	}
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}
