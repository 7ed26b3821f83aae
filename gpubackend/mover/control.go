// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
)

// receive reads the messages of the device process for the loop.
func (s *server) receive() {
	for {
		m, fds, err := s.config.Control.Receive()
		if err != nil {
			s.do(nil, func() { s.done = true })
			return
		}
		if !s.do(fds, func() { s.handle(m, fds) }) {
			return
		}
	}
}

// handle obeys a message of the device process.
func (s *server) handle(m *handover.Message, fds []int) {
	n := m.Name(fds)
	switch m.Kind {
	case handover.KindAttach:
		if e := link.Of(&n); e.Whole() {
			s.connect(e, vouchers.Exposure{Root: m.Vouchers, Channel: uint32(m.Channel)})
			n.Conn, n.Ring, n.Wake = -1, -1, -1
		}
	case handover.KindMemory:
		answer := &handover.Message{Kind: handover.KindDone}
		if err := s.replaceMemory(m, n.Memory); err != nil {
			s.log.WithError(err).Error("replace guest memory")
			answer.Error = err.Error()
		}
		s.send(answer)
	case handover.KindLog:
		answer := &handover.Message{Kind: handover.KindLogged}
		if err := m.TakeLog(n.Log, &s.dirty); err != nil {
			answer.Error = err.Error()
		}
		s.send(answer)
		n.Log = -1
	case handover.KindTakeOver:
		s.send(&handover.Message{Kind: handover.KindStands, Turn: m.Turn,
			Standing: &handover.Standing{Protocol: handover.Protocol}})
	case handover.KindStop:
		s.close()
		s.send(&handover.Message{Kind: handover.KindStopped})
		s.done = true
	}
	handover.CloseFiles(n.Memory)
	for _, fd := range []int{n.Kick, n.Call, n.State, n.Conn, n.Ring, n.Wake, n.Log} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (s *server) send(m *handover.Message) {
	if err := s.config.Control.Send(m, nil); err != nil {
		s.result, s.done = fmt.Errorf("answer the device process: %w", err), true
	}
}

// replaceMemory takes over a new table. When it returns, regions that aren't in the new table are
// neither mapped nor registered; after an error no region is, since the device process will
// withdraw the old ones. Copies for workers that had ended before the message was sent have ended
// too: the device process sends the same table again to make sure of that.
func (s *server) replaceMemory(m *handover.Message, files []int) error {
	for _, c := range s.conns {
		c.closed = c.closed || c.left()
	}
	s.reap() // drops copies that they still wanted
	s.drain()
	s.reap()
	next, dropped, err := s.memory.replaced(m.Memory, files)
	if err != nil {
		next, dropped = &memory{}, s.memory.regions
	}
	for _, r := range dropped {
		s.engine.forget(r)
	}
	closeRegions(dropped)
	s.memory = next
	return errors.Join(err, s.engine.broken()) // then some may still be registered
}

// connect starts to serve a worker.
func (s *server) connect(e link.Half, v vouchers.Exposure) {
	c, err := newConn(e, s.quota, v, &s.dirty)
	if err != nil {
		s.log.WithError(err).Error("serve a worker")
		return
	}
	s.conns = append(s.conns, c)
	s.reader.Go(func() { s.listen(c) })
}

// listen reads a worker's messages for the loop, until the worker is gone.
func (s *server) listen(c *conn) {
	for {
		m, fds, err := receiveMessage(c.socket)
		lends, asksBack := m.kind == messageAttach && len(fds) == 1,
			m.kind == messageDetach && len(fds) == 0
		if err != nil || !lends && !asksBack {
			handover.CloseFiles(fds)
			s.do(nil, func() { c.closed = true })
			return
		}
		if !s.do(fds, func() {
			defer handover.CloseFiles(fds)
			if c.closed {
				return
			}
			if asksBack {
				err = c.detach(s.engine, m.number)
			} else {
				err = c.attach(s.engine, s.memory, fds[0], uint64(m.number)*startUnit, m.value)
			}
			if err != nil && !c.refused {
				c.refused = true // the worker may repeat it: log it once
				s.log.WithError(err).Warn("refuse memory that a worker lends")
			}
			c.closed = c.closed || err != nil && asksBack
		}) {
			return
		}
	}
}
