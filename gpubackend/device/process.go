// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"sync/atomic"

	"github.com/sirupsen/logrus"

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

	program
	channel *channel // that it serves; nil until it is to
	entry   int      // on pages that all workers share; noEntry until it is to serve a channel
	// warmEntry is that in the ledger of one that was started ahead of use; noEntry for others.
	warmEntry int
	serves    bool          // it does
	base      uint16        // where its queue began
	closing   bool          // nobody wants another in its place
	ended     bool          // state is unmapped
	stuck     bool          // it was killed and did not end in time
	saved     *savedProgram // it goes on with; nil for most

	exports exports.Worker // what it offers
}

// kill ends the worker. Whoever has a reason that its owner should know logs it: its end is no news
// then.
func (w *workerProcess) kill() {
	w.killed.Store(true)
	w.proc.Kill()
}

// tell sends a message to which there is no answer. A worker that has no room for it is killed; one
// that was killed doesn't read any more.
func (w *workerProcess) tell(log *logrus.Entry, m *handover.Message, fds []int) {
	if w.killed.Load() {
		return
	}
	if err := w.conn.Tell(m, fds); err != nil {
		log.WithError(err).Info("a worker does not take a message: it is killed")
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
