// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"fmt"
	"net"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/socket"
)

// Client is a child's end of the connection.
type Client struct{ conn *net.UnixConn }

// Open takes what is kept for this process, by number, from the connection that it inherited; the
// descriptors are the caller's. crashes is how many processes before this one have crashed
// recently. It owns conn, even if it fails.
func Open(conn int) (c *Client, held map[uint32]int, crashes int, err error) {
	c = &Client{}
	if c.conn, err = socket.Conn(conn); err != nil {
		return nil, nil, 0, err
	}
	held = map[uint32]int{}
	for {
		m, err := receive(c.conn)
		if err == nil && m.kind == begin {
			return c, held, int(m.number), nil
		}
		_, again := held[m.number]
		if err == nil && (m.kind != kept || again || len(held) == MaxKept) {
			handover.CloseFiles([]int{m.fd})
			err = fmt.Errorf("%w: kind %d", errMessage, m.kind)
		}
		if err != nil {
			for _, fd := range held {
				handover.CloseFiles([]int{fd})
			}
			_ = c.conn.Close()
			return nil, nil, 0, fmt.Errorf("take what is kept: %w", err)
		}
		held[m.number] = m.fd
	}
}

// Keep gives a descriptor to keep, in place of an earlier one of that number. The caller keeps its
// own.
func (c *Client) Keep(number uint32, fd int) error {
	return send(c.conn, message{keep, number, fd})
}

// Drop takes a descriptor back.
func (c *Client) Drop(number uint32) error { return send(c.conn, message{drop, number, -1}) }

// DropAll takes all descriptors back: the process may end.
func (c *Client) DropAll() error { return send(c.conn, message{dropAll, 0, -1}) }

// Replace asks for this process to be killed and replaced by another.
func (c *Client) Replace() error { return send(c.conn, message{replace, 0, -1}) }

// Ready says that the process is ready to serve.
func (c *Client) Ready() error { return send(c.conn, message{ready, 0, -1}) }

// Close closes the connection. What is kept stays kept.
func (c *Client) Close() error { return c.conn.Close() }
