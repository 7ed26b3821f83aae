// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net"
	"sync"
)

// bounded is a listener that takes a limited number of connections at a time. Others are closed,
// rather than left waiting for idle ones.
type bounded struct {
	net.Listener
	room chan struct{}
}

func newBounded(l net.Listener, most int) *bounded {
	return &bounded{l, make(chan struct{}, most)}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.room <- struct{}{}:
			return &boundedConn{Conn: c, leave: func() { <-b.room }}, nil
		default:
			c.Close()
		}
	}
}

// boundedConn is a connection that makes room for another when it is closed.
type boundedConn struct {
	net.Conn
	once  sync.Once
	leave func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}
