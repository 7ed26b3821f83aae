// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// DefaultTimeout is how long the session waits for the rest of a message, or for a front end to
// read.
const DefaultTimeout = 10 * time.Second

// maxRefusalsLogged bounds what one session logs about the messages that it refuses.
const maxRefusalsLogged = 100

// Options tune a session. The zero value is good.
type Options struct {
	Log     logrus.FieldLogger // where refusals and the like are reported; nil: nowhere
	Timeout time.Duration      // 0: DefaultTimeout
	Trace   io.Writer          // gets every message as a line of hex; nil: nobody

	// Progress is called, by Run's goroutine, when the front end has shown something new.
	Progress func(Shown)

	// Keep is called, by Run's goroutine, with what the front end has told so far, for Restore:
	// before a message is taken from the socket, when it was, and again when it was served, before
	// its answer.
	Keep func(*Snapshot)

	// Served is called, by Run's goroutine, when a message was answered: of what Keep has got, only
	// the last snapshot is needed from now on.
	Served func()

	NoIndirect bool // don't offer VIRTIO_F_INDIRECT_DESC
	NoEventIdx bool // don't offer VIRTIO_F_EVENT_IDX
}

// Session serves one front end.
type Session struct {
	conn      *Conn
	dev       Device
	log       logrus.FieldLogger
	trace     tracer
	offered   uint64 // virtio features
	protocols uint64 // protocol features that are offered
	panics    atomic.Int64

	progress func(Shown)
	keep     func(*Snapshot)
	served   func()
	before   earlier

	// Owned by Run's goroutine.
	features  uint64 // virtio features that were accepted
	protocol  uint64 // protocol features that were accepted
	memory    *Memory
	rings     []ring
	dirty     dirtyLog
	transfer  *transfer // of the device's state; nil: there was none
	record    keptRecord
	outbox    outbox
	enclosed  *FD  // goes along with the next answer
	warnedMem bool // this memory was reported as not shared
	refused   int  // messages
	shown     Shown

	mu      sync.Mutex
	channel *FD // to the front end; guarded by mu
}

// New makes a session over a connected socket, and owns the socket if it succeeds.
func New(sock *net.UnixConn, dev Device, opts Options) (*Session, error) {
	n, features := dev.NumQueues(), dev.Features()
	if n < 1 || n > MaxQueues {
		return nil, fmt.Errorf("new session: device has %d queues, want 1 to %d", n, MaxQueues)
	}
	if features&reservedFeatures != 0 {
		return nil, fmt.Errorf("new session: device offers reserved features %#x",
			features&reservedFeatures)
	}
	features |= FeatureVersion1 | FeatureProtocol
	if !opts.NoIndirect {
		features |= FeatureIndirect
	}
	if !opts.NoEventIdx {
		features |= FeatureEventIdx
	}
	if _, ok := dev.(DirtyLogger); ok {
		features |= FeatureLogAll
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.Log == nil {
		silent := logrus.New()
		silent.SetOutput(io.Discard)
		opts.Log = silent
	}
	return &Session{
		conn:    NewConn(sock, opts.Timeout),
		dev:     dev,
		log:     opts.Log,
		trace:   tracer{w: opts.Trace},
		offered: features, protocols: protocolOf(dev), progress: opts.Progress,
		keep: opts.Keep, served: opts.Served,
		memory: &Memory{},
		rings:  make([]ring, n),
	}, nil
}

// Run serves the front end until it closes the connection (nil), ctx is done (its error), or the
// stream breaks. When it returns, all queues are stopped, the device was reset and holds no memory,
// and every descriptor of the session is closed.
func (s *Session) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer stop()
	s.trace.begin(s.dev.NumQueues(), s.dev.Features())
	err := s.begin()
	s.shutdown()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Panics returns how often the device panicked. It should always be 0.
func (s *Session) Panics() int64 { return s.panics.Load() }

// begin tells the device of a snapshot, if there is one, and serves.
func (s *Session) begin() error {
	if s.before.restored {
		if err := s.resume(); err != nil {
			return fmt.Errorf("resume session: %w", err)
		}
		if err := s.sendUnsent(); err != nil {
			return fmt.Errorf("vhost-user session: %w", err)
		}
		if err := s.servePending(); err != nil {
			return fmt.Errorf("vhost-user session: %w", err)
		}
	}
	return s.loop()
}

// loop reads and serves messages.
func (s *Session) loop() error {
	for {
		m, err := s.next()
		var refused *MessageError
		if err != nil && !errors.As(err, &refused) {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("vhost-user session: %w", err)
		}
		s.trace.line(received, m)
		if err := s.serve(m, err); err != nil {
			return fmt.Errorf("vhost-user session: %w", err)
		}
	}
}

// next reads a message. If a session of a later process is to go on, that has the message from
// before it is taken from the socket.
func (s *Session) next() (*Message, error) {
	if s.keep == nil {
		return s.conn.Read()
	}
	m := s.conn.Peek()
	if m == nil {
		return s.conn.Read()
	}
	if rules[m.Request].maxFDs == 0 { // they are of the message behind it
		closeAll(m.takeFDs())
	}
	s.keepNow(m, true)
	if err := s.conn.Take(m); err != nil {
		closeAll(m.takeFDs())
		return nil, err
	}
	return m, nil
}

// serve handles one message and answers it. refused is the error found while reading it. The error
// that is returned is one of the connection.
func (s *Session) serve(m *Message, refused error) error {
	defer func() { closeAll(m.takeFDs()) }()
	if refused == nil {
		s.keepNow(m, false)
	}
	rule, known := rules[m.Request]
	err := refused
	var answer []byte
	switch {
	case err != nil:
	case !known:
		err = fmt.Errorf("%w: unknown request", ErrProtocol)
	default:
		if m.Request != CheckDeviceState {
			s.endTransfer()
		}
		if err = rule.check(m, s.protocol); err == nil {
			answer, err = s.call(m)
		}
	}
	if err != nil {
		s.refuse(m.Request, err)
	}
	_ = s.protect(func() error { s.observe(m, err); return nil })
	send := s.ready(s.answer(m, rule.answers, answer, err))
	s.keepNow(nil, false)
	err = send()
	s.wasServed()
	return err
}

// ready returns how to send an answer, if there is one, once Keep was told. The next process then
// knows whether it was sent, but for an answer with descriptors, which can't go through a file.
func (s *Session) ready(reply *Message) (send func() error) {
	if reply == nil {
		return func() error { return nil }
	}
	s.trace.line(sent, reply)
	if s.keep == nil || len(reply.FDs) > 0 || s.outbox.add(reply) != nil {
		return func() error {
			defer closeAll(reply.FDs)
			return s.conn.Write(reply)
		}
	}
	return func() error { return s.conn.sendRest(s.outbox.fd) }
}

// answer is the answer that a message must get; nil: none.
func (s *Session) answer(m *Message, own bool, payload []byte, err error) *Message {
	switch {
	case m.Flags&FlagReply != 0:
		return nil
	case own && err != nil:
		payload = nil
		if v, ok := refusals[m.Request]; ok {
			payload = word(v)
		}
	case own:
	case m.Flags&FlagNeedReply == 0 || s.protocol&ProtocolReplyAck == 0:
		return nil
	case err != nil:
		payload = word(1)
	default:
		payload = word(0)
	}
	reply := &Message{Request: m.Request, Flags: FlagVersion | FlagReply, Payload: payload}
	if s.enclosed != nil {
		reply.FDs, s.enclosed = []*FD{s.enclosed}, nil
	}
	return reply
}

// call runs the handler of a message.
func (s *Session) call(m *Message) (answer []byte, err error) {
	err = s.protect(func() error {
		answer, err = handlers[m.Request](s, m)
		return err
	})
	return answer, err
}

// protect turns a panic into an error: no front end can reconnect, so the session must outlive a
// fault of the device. It is used for calls of the device after which more must be done in any
// case.
func (s *Session) protect(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.panics.Add(1)
			s.log.WithField("stack", string(debug.Stack())).Errorf("device panicked: %v", r)
			err = fmt.Errorf("%w: %v", ErrDevice, r)
		}
	}()
	return call()
}

// refuse reports a refused message. The front end must not be able to fill the disk with such
// lines.
func (s *Session) refuse(r Request, err error) {
	s.refused++
	if s.refused <= maxRefusalsLogged {
		s.log.WithError(&MessageError{r, err}).Warn("message refused")
	}
	if s.refused == maxRefusalsLogged {
		s.log.Warn("more refusals will not be reported")
	}
}

// shutdown takes everything back from the device.
func (s *Session) shutdown() {
	_ = s.conn.Close()
	s.endTransfer()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"abandon queues", s.abandon},
		{"stop queues", s.stopAll},
		{"end the record", func() error { return s.keepRecord(nil) }},
		{"end the log", func() error { return s.setLogAll(0) }},
		{"reset", func() error { s.dev.Reset(); return nil }},
		{"take memory back", func() error { return s.dev.SetMemory(&Memory{}) }},
	} {
		if err := s.protect(step.do); err != nil {
			s.log.WithError(err).Error(step.name)
		}
	}
	for i := range s.rings {
		s.rings[i].close()
	}
	s.outbox.close()
	_ = s.before.unsent.Close()
	s.closeLog()
	_ = s.memory.Close()
	s.setChannel(nil)
	if s.before.pending != nil {
		closeAll(s.before.pending.takeFDs())
	}
}
