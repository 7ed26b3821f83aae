// SPDX-License-Identifier: Apache-2.0

// Package childtest has children for tests that are no processes: each is a goroutine that talks
// over its control connection as its script says.
package childtest

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Child is a child in a goroutine. It has ended when its script has, killed or not.
type Child struct {
	Conn   *handover.Conn
	Killed chan struct{} // closed when it was killed, or has ended
	Done   chan struct{} // closed when it has ended
	once   sync.Once
}

// Start starts one with its end of a control connection, which stays the caller's.
func Start(control *os.File, script func(*Child)) (*Child, error) {
	fd, err := unix.FcntlInt(control.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	conn, err := handover.NewConn(os.NewFile(uintptr(fd), "child"))
	if err != nil {
		return nil, err
	}
	c := &Child{Conn: conn, Killed: make(chan struct{}), Done: make(chan struct{})}
	go func() {
		defer close(c.Done)
		script(c)
		c.Kill()
	}()
	return c, nil
}

// Kill ends its connection. Its script goes on until it notices that, or looks at Killed.
func (c *Child) Kill() {
	c.once.Do(func() {
		close(c.Killed)
		_ = c.Conn.Close()
	})
}

// Wait waits for its end.
func (c *Child) Wait() error {
	<-c.Done
	return nil
}

// Receive takes a message and closes its files.
func (c *Child) Receive() (handover.Kind, error) {
	m, fds, err := c.Conn.Receive()
	handover.CloseFiles(fds)
	if err != nil {
		return "", err
	}
	return m.Kind, nil
}

// Answers are what a well-behaved child says to each message.
var Answers = map[handover.Kind]handover.Kind{
	handover.KindWarm: handover.KindReady, handover.KindStart: handover.KindReady,
	handover.KindMemory: handover.KindDone,
	handover.KindStop:   handover.KindStopped, handover.KindPause: handover.KindPaused,
	handover.KindLog:  handover.KindLogged,
	handover.KindSync: handover.KindSynced, handover.KindImport: handover.KindTaken,
}

// Polite is the script of a well-behaved child.
func Polite(c *Child) {
	for {
		kind, err := c.Receive()
		if err != nil {
			return
		}
		if a := Answers[kind]; a != "" {
			_ = c.Conn.Send(&handover.Message{Kind: a}, nil)
		}
		if kind == handover.KindStop {
			return
		}
	}
}

// Starts is a script that starts well, then runs rest.
func Starts(rest func(*Child)) func(*Child) {
	return func(c *Child) {
		if _, err := c.Receive(); err == nil {
			_ = c.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
			rest(c)
		}
	}
}
