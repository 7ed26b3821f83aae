// SPDX-License-Identifier: Apache-2.0

package frontend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/paracuda/paracuda/vhostuser"
)

// While a front end is served, a connection may ask whether the guest's driver has the device: `paracuda attach` does, as
// QEMU doesn't know. The question is a message of vhost-user's with a number that no front end uses.
const askDriver vhostuser.Request = 0x61636170

// askTime is how long a question may take, and its answer.
const askTime = time.Second

// ErrNoDriver says that the guest has the device and doesn't use it.
var ErrNoDriver = errors.New("the guest's driver has not started")

// asked answers the question. It returns false for a connection that asks something else.
func asked(c *net.UnixConn, driver bool) bool {
	_ = c.SetDeadline(time.Now().Add(askTime))
	var header [vhostuser.HeaderSize]byte
	conn := vhostuser.NewConn(c, askTime)
	if n, err := c.Read(header[:]); err != nil || string(header[:n]) != string(question().AppendTo(nil)) {
		return false
	}
	answer := question()
	answer.Flags |= vhostuser.FlagReply
	answer.Payload = []byte{0}
	if driver {
		answer.Payload[0] = 1
	}
	_ = conn.Write(answer)
	return true
}

func question() *vhostuser.Message {
	return &vhostuser.Message{Request: askDriver, Flags: vhostuser.FlagVersion}
}

// askPause is how often AwaitDriver asks.
const askPause = 200 * time.Millisecond

// AwaitDriver waits until the driver of the guest whose front end the device on that socket serves has it.
func AwaitDriver(ctx context.Context, socket string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		has, err := ask(socket)
		if err != nil {
			return fmt.Errorf("ask the device process: %w", err)
		}
		if has {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w in %v", ErrNoDriver, wait)
		case <-time.After(askPause):
		}
	}
}

func ask(socket string) (bool, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return false, err
	}
	conn := vhostuser.NewConn(c, askTime)
	defer conn.Close()
	if err := conn.Write(question()); err != nil {
		return false, err
	}
	stop := time.AfterFunc(10*askTime, func() { _ = conn.Close() }) // others may be asking
	defer stop.Stop()
	m, err := conn.Read()
	if err != nil {
		return false, err
	}
	if m.Request != askDriver || len(m.Payload) != 1 {
		return false, fmt.Errorf("an answer of %d bytes to request %d", len(m.Payload), m.Request)
	}
	return m.Payload[0] != 0, nil
}
