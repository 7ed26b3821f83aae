// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Process is a child process.
type Process = child.Process

// Spawner starts the children of a device: this program in another role, with one end of a control
// connection.
type Spawner interface {
	Worker(control *os.File) (Process, error)
	Mover(control *os.File) (Process, error)
}

// program is the guest process that a worker serves.
type program struct {
	pid  int32
	comm string
}

// workerProcess is a running worker. Fields below the channels are guarded by Device.mu.
type workerProcess struct {
	conn   *child.Conn
	state  *handover.State
	proc   Process
	policy handover.Policy // with which it was started
	exited chan struct{}   // closed when the process has ended
	gone   chan struct{}   // closed when its chains are returned, too
	ahead  bool            // it was started ahead of use
	start  chan struct{}   // closed when it serves its channel, or can't
	killed atomic.Bool
	log    atomic.Pointer[logrus.Entry] // for lines about it
	limits Timeouts

	over    atomic.Bool // its process has ended, and nothing of its work goes on
	closing atomic.Bool // nobody wants another in its place

	mu    sync.Mutex
	stuck bool // it was killed and did not end in time; guarded by mu

	program
	channel *channel // that it serves; nil until it is to
	serves  bool     // it does
	base    uint16   // where its queue began
	ended   bool     // state is unmapped

	exports exports.Worker // what it offers
}

// kill ends the worker. Whoever has a reason that its owner should know logs it: its end is no news
// then.
func (w *workerProcess) kill() {
	w.killed.Store(true)
	w.proc.Kill()
}

// obey has it do what a message says. The log has it if it doesn't.
func (w *workerProcess) obey(
	m *handover.Message, fds []int, want handover.Kind, failure string,
) error {
	err := w.conn.Request(m, fds, want, w.limits.Answer)
	if err != nil {
		w.log.Load().WithError(err).Warn(failure)
	}
	return err
}

// PID implements accounts.Process.
func (w *workerProcess) PID() (int, bool) {
	if p, ok := w.proc.(interface{ PID() int }); ok {
		return p.PID(), true
	}
	return 0, false
}

// TooMuch implements accounts.Process.
func (w *workerProcess) TooMuch() {
	if !w.killed.Load() {
		w.log.Load().Warn("the GPU's driver has far more memory for the VM than it may have, " +
			"most of it for this program, which didn't count it: its worker is killed")
		w.kill()
	}
}

// awaitEnd waits for a worker that was killed to be gone and its queue to be taken back, as long as
// a process may take for it. The log says once that one doesn't end, and that it has.
func (w *workerProcess) awaitEnd() bool {
	if w.isStuck() {
		return await.Closed(w.gone)
	}
	if await.Within(w.limits.Exit, w.gone) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !await.Closed(w.exited) && !w.stuck { // otherwise it is the mover that doesn't end
		w.stuck = true
		w.log.Load().Error("a worker that was killed does not end: " +
			"its program's memory stays pinned; see the kernel's log")
	}
	return false
}

// isStuck says whether it was killed and did not end in time.
func (w *workerProcess) isStuck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stuck
}

// tell sends a message to which there is no answer. A worker that has no room for it is killed; one
// that was killed doesn't read any more.
func (w *workerProcess) tell(m *handover.Message, fds []int) {
	if w.killed.Load() {
		return
	}
	if err := w.conn.Tell(m, fds); err != nil {
		w.log.Load().WithError(err).Info("a worker does not take a message: it is killed")
		w.kill()
	}
}

// converse makes the device's end of a connection to a worker.
func (d *Device) converse(
	c *handover.Conn, offered func(m *handover.Message, fds []int),
) *child.Conn {
	return child.New(c, d.config.Timeouts.Answer, offered,
		func(f func()) { go d.guard("a child's messages", f) })
}
