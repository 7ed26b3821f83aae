// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// Bounds.
const (
	maxConnections = 2048
	maxVMs         = 1024
	maxName        = 64
	// firstTimeout is how long a connection may take to say what it wants.
	firstTimeout = 5 * time.Second
	// acceptPause is how long no connection is taken after one could not be.
	acceptPause = time.Second
)

// Config is what an arbiter needs.
type Config struct {
	// Policies are the operator's, by VM name: stronger than what device processes ask for.
	Policies map[string]turns.Policy
	Log      *logrus.Entry
}

// Arbiter is a running one.
type Arbiter struct {
	config Config
	loop   *loop
	done   chan struct{} // the loop has ended

	mu          sync.Mutex
	connections map[*link.Conn]struct{}
	closed      bool
}

// New starts an arbiter that nobody has joined yet.
func New(c Config) (*Arbiter, error) {
	l, err := newLoop()
	if err != nil {
		return nil, fmt.Errorf("start the arbiter: %w", err)
	}
	a := &Arbiter{config: c, loop: l, done: make(chan struct{})}
	a.connections = map[*link.Conn]struct{}{}
	go func() {
		defer close(a.done)
		l.run()
	}()
	return a, nil
}

// Close ends all connections and opens all gates.
func (a *Arbiter) Close() {
	a.mu.Lock()
	a.closed = true
	for c := range a.connections {
		c.Close()
	}
	a.mu.Unlock()
	a.loop.end()
	<-a.done
}

// Serve takes connections until the listener is closed.
func (a *Arbiter) Serve(l *net.UnixListener) error {
	for {
		u, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil: // no descriptors left, say, which passes
			a.config.Log.WithError(err).Warn("take a connection")
			time.Sleep(acceptPause)
			continue
		}
		c := link.New(u)
		if !a.admit(c) {
			c.Close()
			continue
		}
		go func() {
			defer a.dismiss(c)
			a.serve(c)
		}()
	}
}

func (a *Arbiter) admit(c *link.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || len(a.connections) >= maxConnections {
		return false
	}
	a.connections[c] = struct{}{}
	return true
}

func (a *Arbiter) dismiss(c *link.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.connections, c)
	c.Close()
}

// serve does what one connection asks for: one thing, or to take part for as long as it lasts.
func (a *Arbiter) serve(c *link.Conn) {
	c.Deadline(time.Now().Add(firstTimeout))
	var r link.Request
	fds, err := c.Receive(&r, gateFiles)
	if err != nil {
		return
	}
	if r.Kind != link.Join {
		link.CloseFiles(fds)
	}
	answer, m := a.handle(c, &r, fds)
	answer.Version = link.Version
	if err := c.Send(answer); err != nil || m == nil {
		a.leave(m)
		return
	}
	c.Deadline(time.Time{})
	a.follow(c, m)
	a.leave(m)
}

// handle answers a first request. The member is one that joined.
func (a *Arbiter) handle(c *link.Conn, r *link.Request, fds []int) (*link.Answer, *member) {
	var answer link.Answer
	var m *member
	var err error
	switch {
	case r.Version != link.Version:
		if r.Kind == link.Join {
			link.CloseFiles(fds)
		}
		err = fmt.Errorf("this arbiter speaks version %d, you %d: install the same paracuda for both",
			link.Version, r.Version)
	case r.Kind == link.Join:
		m, err = a.join(r, fds)
	case r.Kind == link.List:
		answer.VMs = a.VMs()
	case r.Kind == link.Set:
		err = a.set(c, r)
	default:
		err = fmt.Errorf("unknown request %.20q", r.Kind)
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return &answer, m
}

// follow takes what a device process tells of its VM.
func (a *Arbiter) follow(c *link.Conn, m *member) {
	for {
		var r link.Request
		if _, err := c.Receive(&r, 0); err != nil {
			return
		}
		switch r.Kind {
		case link.Figures:
			a.loop.do(func() { m.figures = r.Figures })
		case link.Set:
			a.change(m, r.Policy)
		}
	}
}

// VMs tells about all that have joined, in no order.
func (a *Arbiter) VMs() (list []link.VM) {
	a.loop.do(func() {
		now := Now()
		for id, m := range a.loop.members {
			s, _ := a.loop.scheduler.Stats(now, id)
			list = append(list, m.tell(s))
		}
	})
	return list
}

// gateFiles are those that come with Join: memory, bell, opened.
const gateFiles = 3

// openGate maps the page of a VM that joins.
func openGate(fds []int) (*gate.Page, error) {
	if len(fds) != gateFiles {
		link.CloseFiles(fds)
		return nil, errors.New("join: the gate's files are missing")
	}
	return gate.Open(fds[0], fds[1], fds[2])
}
