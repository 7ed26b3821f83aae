// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/socket"
)

// patience is how long the starter process may take for an answer on a busy host: as long as a
// guest waits for one. The end of the process is noticed at once.
const patience = 30 * time.Second

// ErrGone says that the starter process has ended: the kernel ends its children, too.
var ErrGone = errors.New("the starter process is gone")

// Client is the device process's end.
type Client struct {
	conn  *net.UnixConn
	gone  chan struct{} // closed when the starter process is gone
	knows bool          // it knows reopen, shut, weigh and makes

	mu        sync.Mutex
	last      uint32
	asked     map[uint32]chan answer
	processes map[uint32]*Process // that have not ended
	resuming  bool                // those of an earlier client are not all known yet
}

type answer struct {
	message
	process *Process // for started
	file    *os.File // for connected, reopened and made
}

// drop gives up what came with an answer that nobody waits for any more.
func (a *answer) drop() {
	if a.process != nil {
		a.process.Kill()
		go func() { _ = a.process.Wait() }()
	}
	if a.file != nil {
		a.file.Close()
	}
}

// NewClient takes over the connection to a starter process.
func NewClient(conn *net.UnixConn) *Client {
	c := newClient(conn)
	c.knows = true // it is of this version
	go c.read()
	return c
}

func newClient(conn *net.UnixConn) *Client {
	return &Client{conn: conn, gone: make(chan struct{}), asked: map[uint32]chan answer{},
		processes: map[uint32]*Process{}}
}

// Resume takes over the connection from a process that is gone, which may have left requests
// without an answer and answers that it didn't read. It returns the children that haven't ended,
// which the caller owns as if Start had returned them. It owns conn, even if it fails: then the
// starter process ends.
func Resume(conn *net.UnixConn) (*Client, []*Process, error) {
	c := newClient(conn)
	// The numbers of the earlier client's requests aren't known yet: this request's must differ.
	c.resuming, c.last = true, rand.Uint32()
	go c.read()
	a, err := c.ask(&message{kind: list}, -1)
	if err == nil && a.kind != listed {
		a.drop()
		err = errMessage
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.resuming = false
		for _, p := range c.processes {
			p.Kill()
			go func() { _ = p.Wait() }()
		}
		_ = conn.Close()
		return nil, nil, fmt.Errorf("take over the starter process: %w", err)
	}
	c.last, c.knows = a.pid, a.text == knowsAll
	return c, slices.Collect(maps.Values(c.processes)), nil
}

// Close ends the starter process, and its children with it.
func (c *Client) Close() {
	_ = c.conn.Close()
	<-c.gone
}

// Gone is closed when the starter process is gone: nothing can be started any more.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Start asks for a child, with this connection, which the caller keeps.
func (c *Client) Start(r Role, control *os.File) (*Process, error) {
	a, err := c.ask(&message{kind: start, role: r}, int(control.Fd()))
	if err != nil {
		return nil, fmt.Errorf("start a %s: %w", r, err)
	}
	if a.process == nil {
		return nil, fmt.Errorf("start a %s: %w", r, errMessage)
	}
	return a.process, nil
}

// Count returns how much memory of each software GPU the children have, by their numbers.
func (c *Client) Count() (map[int][ledger.GPUs]uint64, error) {
	a, err := c.ask(&message{kind: count}, -1)
	if err != nil {
		return nil, fmt.Errorf("count memory: %w", err)
	}
	if a.kind != counted {
		return nil, fmt.Errorf("count memory: %w", errMessage)
	}
	bytes := map[int][ledger.GPUs]uint64{}
	for _, u := range a.used {
		if u.gpu >= ledger.GPUs {
			return nil, fmt.Errorf("count memory: %w", errMessage)
		}
		of := bytes[int(u.pid)]
		of[u.gpu] = u.bytes
		bytes[int(u.pid)] = of
	}
	return bytes, nil
}

// Connect asks for a connection to a socket, one of Config.Sockets.
func (c *Client) Connect(path string) (*net.UnixConn, error) {
	a, err := c.ask(&message{kind: connect, text: path}, -1)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	if a.file == nil {
		return nil, fmt.Errorf("connect to %s: %w", path, errMessage)
	}
	defer a.file.Close()
	conn, err := socket.Of(a.file)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return conn, nil
}

// Remove asks to remove a socket that this process has made, one of Config.Made.
func (c *Client) Remove(path string) error {
	if _, err := c.ask(&message{kind: remove, text: path}, -1); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// ask sends a request and waits for the answer.
func (c *Client) ask(m *message, fd int) (answer, error) {
	ch := make(chan answer, 1)
	c.mu.Lock()
	c.last++
	m.id = c.last
	c.asked[m.id] = ch
	_ = c.conn.SetWriteDeadline(time.Now().Add(patience))
	err := send(c.conn, m, fd)
	c.mu.Unlock()
	if err != nil {
		c.forget(m.id)
		if errors.Is(err, net.ErrClosed) || errors.Is(err, unix.EPIPE) ||
			errors.Is(err, unix.ECONNRESET) {
			err = ErrGone
		}
		return answer{}, err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a := <-ch:
		if a.kind == failed {
			return a, refusal(&a.message)
		}
		return a, nil
	case <-c.gone:
		return answer{}, ErrGone
	case <-timer.C:
	}
	if !c.forget(m.id) { // the answer has come just now
		a := <-ch
		a.drop()
	}
	return answer{}, fmt.Errorf("no answer in %v", patience)
}

// refusal is the error that an answer carries.
func refusal(m *message) error {
	if m.pid != 0 {
		return syscall.Errno(m.pid)
	}
	return errors.New(m.text)
}

// forget drops a request, and says whether it had no answer yet.
func (c *Client) forget(id uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.asked[id]
	delete(c.asked, id)
	return open
}

// read takes the starter process's messages.
func (c *Client) read() {
	defer close(c.gone)
	for {
		m, fd, err := receive(c.conn)
		if err != nil {
			_ = c.conn.Close()
			return
		}
		if !c.take(m, fd) && fd >= 0 {
			unix.Close(fd)
		}
	}
}

// take takes a message, and says whether it has taken the file.
func (c *Client) take(m *message, fd int) (kept bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.kind == ended {
		if p := c.processes[m.id]; p != nil {
			delete(c.processes, m.id)
			p.end(m.text, syscall.Signal(m.pid))
		}
		return false
	}
	if m.kind == listing || m.kind == started && c.resuming {
		return c.learn(m, fd)
	}
	a := answer{message: *m}
	// An earlier client may have read half of the list.
	if m.kind == listed && c.asked[m.id] != nil {
		c.resuming = false
	}
	if m.kind == started && fd >= 0 && c.processes[m.id] == nil {
		a.process = newProcess(m.id, int(m.pid), fd, c.gone)
		c.processes[m.id] = a.process
	}
	if (m.kind == connected || m.kind == reopened || m.kind == made) && fd >= 0 {
		a.file = os.NewFile(uintptr(fd), "answer")
	}
	ch := c.asked[m.id]
	delete(c.asked, m.id)
	if ch != nil {
		ch <- a
	} else {
		a.drop()
	}
	return a.process != nil || a.file != nil
}

// learn takes a child that an earlier client has started, unless it is known, and says whether it
// has taken the file. An answer that the earlier client didn't read says the same as the list.
func (c *Client) learn(m *message, fd int) (kept bool) {
	if !c.resuming || fd < 0 || c.processes[m.id] != nil {
		return false
	}
	c.processes[m.id] = newProcess(m.id, int(m.pid), fd, c.gone)
	return true
}
