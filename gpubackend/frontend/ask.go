// SPDX-License-Identifier: Apache-2.0

package frontend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
)

// A connection may ask whether a front end is served, and whether the guest's driver has the
// device: `paracuda attach` does so, since QEMU doesn't know. The question is a vhost-user message
// with a number that no front end uses.
const askDriver vhostuser.Request = 0x61636170

// state is the answer.
type state byte

const (
	served state = iota // a front end is served, but our driver doesn't have the device
	driven              // our driver has it
	free                // no front end is there
)

// askTime is how long a question or its answer may take.
const askTime = time.Second

// ErrNoDriver says that the guest has the device, but its driver doesn't use it.
var ErrNoDriver = errors.New("the guest's driver has not started: " +
	"is the guest package installed there")

// ErrServes says that the device process already has a front end.
var ErrServes = errors.New("the device process serves a VM already: start another one, " +
	"with a socket of its own")

// asked answers the question, and returns false for a connection that doesn't ask it. What such a
// connection has sent stays unread. The wait for a connection that sends nothing is short.
func asked(c *net.UnixConn, now state) bool {
	_ = c.SetDeadline(time.Now().Add(askTime))
	defer func() { _ = c.SetDeadline(time.Time{}) }()
	if string(peek(c)) != string(question().AppendTo(nil)) {
		return false
	}
	answer := question()
	answer.Flags |= vhostuser.FlagReply
	answer.Payload = []byte{byte(now)}
	_ = vhostuser.NewConn(c, askTime).Write(answer)
	return true
}

// peek waits for the beginning of a message.
func peek(c *net.UnixConn) []byte {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	header, n := make([]byte, vhostuser.HeaderSize), 0
	_ = raw.Read(func(fd uintptr) bool {
		n, _, _, _, err = unix.RecvmsgBuffers(int(fd), [][]byte{header}, nil,
			unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return !errors.Is(err, unix.EAGAIN) // wait for more until the deadline
	})
	return header[:max(n, 0)]
}

func question() *vhostuser.Message {
	return &vhostuser.Message{Request: askDriver, Flags: vhostuser.FlagVersion}
}

// askPause is how often AwaitDriver asks.
const askPause = 200 * time.Millisecond

// AwaitDriver waits until the guest's driver has the device that is served on a socket.
func AwaitDriver(ctx context.Context, socket string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		now, err := ask(socket)
		if err != nil {
			return fmt.Errorf("ask the device process: %w", err)
		}
		if now == driven {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w in %v", ErrNoDriver, wait)
		case <-time.After(askPause):
		}
	}
}

// CheckFree returns ErrServes if the device on a socket has a front end. A device that doesn't
// answer counts as free.
func CheckFree(socket string) error {
	if now, err := ask(socket); err == nil && now != free {
		return ErrServes
	}
	return nil
}

func ask(socket string) (state, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return 0, err
	}
	conn := vhostuser.NewConn(c, askTime)
	defer conn.Close()
	if err := conn.Write(question()); err != nil {
		return 0, err
	}
	stop := time.AfterFunc(10*askTime, func() { _ = conn.Close() }) // others may be asking
	defer stop.Stop()
	m, err := conn.Read()
	if err != nil {
		return 0, err
	}
	if m.Request != askDriver || len(m.Payload) != 1 {
		return 0, fmt.Errorf("an answer of %d bytes to request %d", len(m.Payload), m.Request)
	}
	return state(m.Payload[0]), nil
}
