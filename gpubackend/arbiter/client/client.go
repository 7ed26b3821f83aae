// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/arbiter"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/gate"
)

// Times.
const (
	answerTimeout = 2 * time.Second
	retryEvery    = time.Second
	watchEvery    = 200 * time.Millisecond
)

// ErrRefused says that there is an arbiter and that it doesn't take the VM.
var ErrRefused = errors.New("the arbiter refuses the VM")

// Config is what a Client needs.
type Config struct {
	Path     string // of the arbiter's socket
	Required bool   // it is an error that nobody answers there
	Name     string // of the VM
	GPUs     []string
	Policy   map[string]string // asked for
	Page     *gate.Page        // stays the caller's
	Log      *logrus.Entry
}

// DefaultPath is where an arbiter is looked for: root's, else the user's own.
func DefaultPath() string {
	if os.Getuid() == 0 {
		return "/run/paracuda/arbiter.sock"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "paracuda", "arbiter.sock")
	}
	return fmt.Sprintf("/tmp/paracuda-%d/arbiter.sock", os.Getuid())
}

// Client takes part for a VM.
type Client struct {
	config Config
	stop   chan struct{}
	ended  sync.WaitGroup

	mu     sync.Mutex
	conn   *link.Conn // nil while there is no arbiter
	policy map[string]string
	said   string // what was logged last
}

// New joins. Where nobody answers the VM runs unshared, and joins when somebody does, unless the
// arbiter is required. An arbiter that refuses is an error.
func New(c Config) (*Client, error) {
	x := &Client{config: c, stop: make(chan struct{}), policy: c.Policy}
	conn, err := x.join()
	switch {
	case err == nil:
	case errors.Is(err, ErrRefused):
		return nil, err
	case c.Required:
		return nil, fmt.Errorf("no arbiter answers at %s: start paracuda arbiter: %w", c.Path, err)
	}
	x.ended.Add(1)
	go func() {
		defer x.ended.Done()
		x.run(conn)
	}()
	return x, nil
}

// Close ends the part and leaves the gate open.
func (x *Client) Close() {
	close(x.stop)
	x.mu.Lock()
	if x.conn != nil {
		x.conn.Close()
	}
	x.mu.Unlock()
	x.ended.Wait()
	x.config.Page.Set(gate.Unshared)
}

// Tell sends figures of the VM.
func (x *Client) Tell(f *link.Figure) {
	x.send(&link.Request{Version: link.Version, Kind: link.Figures, Figures: f})
}

// Set asks for another policy, from now on.
func (x *Client) Set(policy map[string]string) {
	x.mu.Lock()
	x.policy = policy
	x.mu.Unlock()
	x.send(&link.Request{Version: link.Version, Kind: link.Set, Policy: policy})
}

// Joined says whether there is an arbiter.
func (x *Client) Joined() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.conn != nil
}

func (x *Client) send(r *link.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn != nil {
		_ = x.conn.Send(r) // that the arbiter has gone shows elsewhere
	}
}

// join connects and has the VM taken.
func (x *Client) join() (*link.Conn, error) {
	conn, err := link.Dial(x.config.Path, answerTimeout)
	if err != nil {
		return nil, err
	}
	conn.Deadline(time.Now().Add(answerTimeout))
	x.mu.Lock()
	r := link.Request{
		Version: link.Version, Kind: link.Join, Name: x.config.Name, GPUs: x.config.GPUs,
		Policy: x.policy,
	}
	x.mu.Unlock()
	memory, bell, opened := x.config.Page.FDs()
	var a link.Answer
	if err = conn.Send(&r, memory, bell, opened); err == nil {
		_, err = conn.Receive(&a, 0)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("join the arbiter: %w", err)
	}
	if a.Error != "" {
		conn.Close()
		return nil, fmt.Errorf("%w: %s", ErrRefused, a.Error)
	}
	conn.Deadline(time.Time{})
	return conn, nil
}

// run takes part until the client is closed.
func (x *Client) run(conn *link.Conn) {
	for {
		if conn != nil {
			x.say("the GPU is shared by the arbiter")
			x.take(conn)
			x.config.Page.Set(gate.Unshared)
		}
		select {
		case <-x.stop:
			return
		case <-time.After(retryEvery):
		}
		var err error
		if conn, err = x.join(); errors.Is(err, ErrRefused) {
			x.say(err.Error())
		}
	}
}

// say logs what has changed.
func (x *Client) say(text string) {
	if text != x.said {
		x.said = text
		x.config.Log.Info(text)
	}
}

// take takes part until the connection ends.
func (x *Client) take(conn *link.Conn) {
	x.mu.Lock()
	x.conn = conn
	x.mu.Unlock()
	gone := make(chan struct{})
	go func() { // nothing is sent: it returns when the connection ends
		defer close(gone)
		for {
			var a link.Answer
			if _, err := conn.Receive(&a, 0); err != nil {
				return
			}
		}
	}()
	x.watch(gone)
	x.mu.Lock()
	x.conn = nil
	x.mu.Unlock()
	conn.Close()
	<-gone
}

// watch opens the gate whenever the arbiter doesn't beat, until it is gone. One that beats again
// sets the gate itself.
func (x *Client) watch(gone <-chan struct{}) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-gone:
			x.say("the arbiter has ended: the GPU is not shared until there is one again")
			return
		case <-x.stop:
			return
		case <-t.C:
			if arbiter.Now()-x.config.Page.Beaten() > arbiter.BeatTimeout {
				x.say("the arbiter doesn't answer: the GPU is not shared until it does")
				x.config.Page.Set(gate.Unshared)
			} else {
				x.say("the GPU is shared by the arbiter")
			}
		}
	}
}
