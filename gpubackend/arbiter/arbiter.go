// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/pace"
)

// Bounds.
const (
	maxConnections = 2048
	// maxOfUser bounds the connections of one user, except root and the arbiter's own user.
	maxOfUser = 1024
	maxVMs    = 1024
	// firstTimeout is how long a connection may take to say what it wants.
	firstTimeout = 5 * time.Second
	// acceptPause is how long the arbiter waits after a connection that it couldn't take.
	acceptPause = time.Second
	// Requests are taken at this rate in the long run, so that they keep nobody from its turn.
	requestRate, requestBurst = 4000, 400
	// Connections too. Whoever makes more of them waits in connect, and takes no processor time
	// from VMs.
	connectionRate, connectionBurst = 4000, 400
)

// Config is what an arbiter needs.
type Config struct {
	// Table has the operator's policies, which override what device processes ask for. nil: none.
	Table *policy.Table
	// Warm is how many warm workers the VMs of a GPU may have together; nil: DefaultWarm.
	Warm *int
	Log  *logrus.Entry
}

// Arbiter is an arbiter that runs.
type Arbiter struct {
	log      *logrus.Entry
	loop     *loop
	done     chan struct{} // the loop has ended
	requests *pace.Pace
	arrivals *pace.Pace // of connections
	list     list

	mu          sync.Mutex
	connections map[*link.Conn]uint32 // with their users
	users       map[uint32]int        // how many connections each has
	closed      bool
}

// New starts an arbiter.
func New(c Config) (*Arbiter, error) {
	l, err := newLoop()
	if err != nil {
		return nil, fmt.Errorf("start the arbiter: %w", err)
	}
	return begin(c, l, ownThread), nil
}

// begin starts an arbiter whose loop hasn't begun, on a goroutine that is prepared for it.
func begin(c Config, l *loop, prepare func()) *Arbiter {
	if c.Table != nil {
		l.table = c.Table
	}
	if c.Warm != nil {
		l.warm = *c.Warm
	}
	a := &Arbiter{
		log: c.Log, loop: l, done: make(chan struct{}),
		requests:    pace.New(requestRate, requestBurst, pace.Real),
		arrivals:    pace.New(connectionRate, connectionBurst, pace.Real),
		connections: map[*link.Conn]uint32{}, users: map[uint32]int{},
	}
	go func() {
		defer close(a.done)
		prepare()
		l.run()
	}()
	return a
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

// Serve accepts connections until the listener is closed.
func (a *Arbiter) Serve(l *net.UnixListener) error {
	for {
		a.arrivals.Wait(a.done)
		u, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil: // for example no descriptors left, which passes
			a.log.WithError(err).Warn("take a connection")
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
	user, err := c.User()
	if err != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || len(a.connections) >= maxConnections ||
		!trusted(user) && a.users[user] >= maxOfUser {
		return false
	}
	a.connections[c] = user
	a.users[user]++
	return true
}

func (a *Arbiter) dismiss(c *link.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	user := a.connections[c]
	if a.users[user]--; a.users[user] == 0 {
		delete(a.users, user)
	}
	delete(a.connections, c)
	c.Close()
}

// ownUser is this process's user. It can't ask again once its system calls are filtered.
var ownUser = os.Getuid()

// trusted says whether a user may do what an operator may.
func trusted(user uint32) bool { return user == 0 || int(user) == ownUser }

// gateFiles are the files that come with Join: memory, bell, opened.
const gateFiles = 3

// openGate maps the page of a VM that joins.
func openGate(fds []int) (*gate.Page, error) {
	if len(fds) != gateFiles {
		link.CloseFiles(fds)
		return nil, errors.New("join: the gate's files are missing")
	}
	return gate.Open(fds[0], fds[1], fds[2])
}
