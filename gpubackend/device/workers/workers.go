// SPDX-License-Identifier: Apache-2.0

// Package workers has the workers of a VM as its device process knows them: how one is started,
// what it is asked and told, and how it ends.
//
// # Who owns what
//
// Workers have no state in common. Each Worker has a lock of its own, under which nobody is called
// and nobody waits: its methods may be called with any other lock held, but for those that say that
// they wait. One goroutine waits for its process to end, and tells Config.Exited and Config.Ended;
// until the latter returns, what the worker noted of its queue can be read (State).
//
// # Who may lie
//
// Workers. Who asks one that doesn't answer in time kills it. One that was killed and doesn't end
// is stuck, and is waited for only once. Its notes of its queue, and its counters, are read from
// memory that it can write to; who uses them checks them.
//
// # Files
//
// workers.go (one starts), takeover.go (one is there already), worker.go (one ends), asked.go (what
// it is asked and told), rings.go (where its queue is), all.go (all that serve), moves.go (as
// packages suspend, place and saving see it).
package workers

import (
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Limits are how long a worker may take.
type Limits struct {
	Answer time.Duration // to obey a request
	Stop   time.Duration // to let go in an orderly way
	Exit   time.Duration // to be gone when it is killed
}

// Config is what workers need.
type Config struct {
	// Spawn starts a worker's process, with one end of a control connection.
	Spawn  func(control *os.File) (child.Process, error)
	Limits Limits
	// Began is told of a worker that serves nobody yet, before anything else.
	Began func(*Worker)
	// Said takes what a worker says without being asked, and its files. It must not wait.
	Said func(w *Worker, m *handover.Message, fds []int)
	// Exited is told that a worker's process has ended: nothing of its work goes on.
	Exited func(*Worker)
	// Ended is told after that, with how it ended, and takes back what the worker had.
	Ended func(w *Worker, err error)
	// Guard runs a part of this package, and survives its faults; Run does so on a goroutine for
	// which the device's end waits.
	Guard func(part string, f func()) bool
	Run   func(part string, f func())
	Log   *logrus.Entry
}

// Workers are those of one VM.
type Workers struct{ config Config }

// New returns what starts the workers of a VM.
func New(c Config) *Workers { return &Workers{c} }

// Program is the guest process that a worker serves.
type Program struct {
	PID  int32
	Name string
}

// String is how a program is named in messages.
func (p Program) String() string { return fmt.Sprintf("%s (pid %d)", p.Name, p.PID) }

// Cold is the home of a worker that isn't started ahead of use.
const Cold = -1

// Start starts a worker's process with that policy. It serves nobody yet. home is the GPU for which
// it is started ahead of use, or Cold.
func (x *Workers) Start(policy handover.Policy, home int) (*Worker, error) {
	state, err := handover.NewState()
	if err != nil {
		return nil, err
	}
	started := false
	defer func() { // even after a fault
		if !started {
			state.Close()
		}
	}()
	conn, remote, err := handover.Pair()
	if err != nil {
		return nil, err
	}
	defer remote.Close()
	defer func() {
		if !started {
			conn.Close()
		}
	}()
	proc, err := x.config.Spawn(remote)
	if err != nil {
		return nil, err
	}
	started = true
	w := &Worker{
		Policy: policy, Ahead: home != Cold, Home: home, config: &x.config, proc: proc,
		state: state, channel: -1,
		began: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{}),
		rings: rings{came: make(chan struct{})},
	}
	w.log.Store(x.config.Log)
	x.config.Began(w)
	w.converse(conn)
	x.config.Run("a worker's end", func() { w.await() })
	return w, nil
}

// converse reads what the worker says, which may be answered at once.
func (w *Worker) converse(c *handover.Conn) {
	var read func()
	w.conn = child.New(c, w.config.Limits.Answer,
		func(m *handover.Message, fds []int) { w.config.Said(w, m, fds) },
		func(f func()) { read = f })
	go w.config.Guard("a worker's messages", read)
}
