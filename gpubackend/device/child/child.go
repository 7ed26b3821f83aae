// SPDX-License-Identifier: Apache-2.0

// Package child has what a device process knows of one that it has started: how to end it, and its
// end of the connection by which it is asked and told (package handover).
//
// # Who may lie
//
// The child. What it says unasked, or too late, is dropped; one that doesn't answer costs the
// caller the time that it allows.
package child

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Process is a child process.
type Process interface {
	Kill()
	// Wait returns when the process is gone, with how it ended. If a signal ended it, the error's
	// method EndedBy says which.
	Wait() error
}

// Conn is the device's end of a control connection. Messages of the child are answers, or
// offers of objects: one goroutine reads them.
type Conn struct {
	conn    *handover.Conn
	answers chan *handover.Message
	offered func(m *handover.Message, fds []int) // takes over the files; must not wait
	// closed when the child's end is closed and all that it said is in answers
	ended chan struct{}
	mu    sync.Mutex // one request at a time
	quiet atomic.Bool
}

// unread is how many answers may wait unread, including those to the previous device process.
const unread = 8

// New makes the device's end; send bounds the time for sending a message. offered gets what the
// child says unasked, with its files, and must not wait. run runs a function on a goroutine.
func New(
	c *handover.Conn, send time.Duration, offered func(m *handover.Message, fds []int),
	run func(func()),
) *Conn {
	c.SetTimeout(send)
	r := &Conn{conn: c, answers: make(chan *handover.Message, unread), offered: offered,
		ended: make(chan struct{})}
	run(r.read)
	return r
}

// RefuseOffer is for children that have nothing to offer.
func RefuseOffer(_ *handover.Message, fds []int) { handover.CloseFiles(fds) }

// Quiet says whether the child has paused or stopped, and has marked its writes to the guest's
// memory.
func (r *Conn) Quiet() bool { return r.quiet.Load() }

// GoesOn is told that a paused child goes on.
func (r *Conn) GoesOn() { r.quiet.Store(false) }

func (r *Conn) read() {
	defer close(r.ended)
	defer close(r.answers)
	for {
		m, fds, err := r.conn.Receive()
		if err == nil && m.Kind.Unasked() {
			r.offered(m, fds)
			continue
		}
		handover.CloseFiles(fds)
		if err != nil {
			return
		}
		if m.Kind == handover.KindPaused || m.Kind == handover.KindStopped {
			r.quiet.Store(true)
		}
		select {
		case r.answers <- m:
		default: // nobody asked: what a child says beyond that is dropped
		}
	}
}

// Tell sends m, to which there is no answer, without waiting for room.
func (r *Conn) Tell(m *handover.Message, fds []int) error { return r.conn.SendNow(m, fds) }

// Close ends the connection with a child that is gone.
//
// It doesn't wait for others that have the child's end open, such as processes that the child
// started.
func (r *Conn) Close() {
	timer := time.NewTimer(LastWords)
	defer timer.Stop()
	select {
	case <-r.ended:
	case <-timer.C:
	}
	_ = r.conn.Close()
}

// LastWords is how long a child's messages are awaited after its end: all of them are there
// already.
const LastWords = time.Second

// Request sends m and waits for the answer.
func (r *Conn) Request(
	m *handover.Message, fds []int, want handover.Kind, timeout time.Duration,
) error {
	_, err := r.Consult(m, fds, want, timeout)
	return err
}

// Consult is Request for callers that need the answer's content.
func (r *Conn) Consult(
	m *handover.Message, fds []int, want handover.Kind, timeout time.Duration,
) (*handover.Message, error) {
	if err := r.send(m, fds); err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	return r.answer(m, want, timeout)
}

// Ask sends m. It returns a function that waits for the answer, which must be called; until then
// there can be no other request.
func (r *Conn) Ask(
	m *handover.Message, fds []int,
) (answer func(handover.Kind, time.Duration) error, err error) {
	if err := r.send(m, fds); err != nil {
		return nil, err
	}
	return func(want handover.Kind, timeout time.Duration) error {
		defer r.mu.Unlock()
		_, err := r.answer(m, want, timeout)
		return err
	}, nil
}

// send sends m. On success mu is held.
func (r *Conn) send(m *handover.Message, fds []int) error {
	r.mu.Lock()
	for len(r.answers) > 0 {
		<-r.answers // an answer to nothing, or to a request that timed out
	}
	if err := r.conn.Send(m, fds); err != nil {
		r.mu.Unlock()
		return err
	}
	return nil
}

// answer waits for the answer to a request. A late one to an earlier request is dropped.
func (r *Conn) answer(
	asked *handover.Message, want handover.Kind, timeout time.Duration,
) (*handover.Message, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		select {
		case a, ok := <-r.answers:
			switch {
			case !ok:
				return nil, fmt.Errorf("%s: %w", asked.Kind, ErrGone)
			case a.Turn != asked.Turn:
				continue
			case a.Kind != want:
				return nil, fmt.Errorf("%s: unexpected answer %q", asked.Kind, a.Kind)
			case a.Error != "":
				return a, fmt.Errorf("%s: %w: %s", asked.Kind, ErrRefused, a.Error)
			}
			return a, nil
		case <-timer.C:
			return nil, fmt.Errorf("%s: no answer in %v", asked.Kind, timeout)
		}
	}
}

// TakeOver asks a child of another device process for its position. Answers to that process's
// requests are dropped.
func (r *Conn) TakeOver(timeout time.Duration) (*handover.Standing, error) {
	m := &handover.Message{Kind: handover.KindTakeOver, Turn: rand.Uint64() | 1}
	a, err := r.Consult(m, nil, handover.KindStands, timeout)
	switch {
	case err != nil:
		return nil, err
	case a.Standing == nil || a.Standing.Protocol != handover.Protocol:
		return nil, fmt.Errorf("%s: %w", m.Kind, ErrVersion)
	}
	return a.Standing, nil
}

// ErrVersion is the error for a child that another version of this program has started, with
// another protocol.
var ErrVersion = errors.New("it speaks another version of the protocol between processes")

// WithFD calls f with the connection's descriptor, which stays its own.
func (r *Conn) WithFD(f func(fd int)) { r.conn.WithFD(f) }

// ErrGone says that the child has closed its end, or has said what is no message: it has ended, or
// soon will, unless it lies.
var ErrGone = errors.New("the process is gone")

// ErrRefused is wrapped by errors with which the child has answered.
var ErrRefused = errors.New("refused")

// SayEnded logs how a child ended. If this process killed it, that is no news; if its sandbox or
// another signal ended it, the operator should know. A guest can cause that as often as it likes:
// package loglimit bounds the log.
func SayEnded(log *logrus.Entry, child string, err error, killed bool) {
	level := logrus.InfoLevel
	switch by := signal(err); {
	case by == syscall.SIGSYS:
		level = logrus.ErrorLevel
	case killed && (by == 0 || by == syscall.SIGKILL):
		log.WithError(err).Debugf("%s was ended", child)
		return
	case by != 0:
		level = logrus.WarnLevel
	}
	if err != nil {
		log.WithError(err).Logf(level, "%s ended", child)
	}
}

// signal is the signal that ended a process with that error; 0: none did, or it isn't known.
func signal(how error) syscall.Signal {
	var told interface{ EndedBy() syscall.Signal }
	if errors.As(how, &told) {
		return told.EndedBy()
	}
	return 0
}
