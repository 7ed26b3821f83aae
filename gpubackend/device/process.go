// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Process is a child process.
type Process interface {
	Kill()
	// Wait returns when the process is gone, with how it ended.
	Wait() error
}

// Spawner starts the children of a device: this program in another role, with one end of a control
// connection.
type Spawner interface {
	Worker(control *os.File) (Process, error)
	Mover(control *os.File) (Process, error)
}

// requester is the device's end of a control connection. Messages of the child are answers, or
// offers of objects: one goroutine reads them.
type requester struct {
	conn    *handover.Conn
	answers chan *handover.Message
	offered func(m *handover.Message, fds []int) // takes the files; must not wait
	// closed when the child's end is closed and all it said is in answers
	ended chan struct{}
	mu    sync.Mutex  // one request at a time
	quiet atomic.Bool // it has paused or stopped, and marked its writes
}

func (d *Device) newRequester(c *handover.Conn, offered func(*handover.Message, []int)) *requester {
	send := d.config.Timeouts.Answer
	c.SetTimeout(send)
	r := &requester{conn: c, answers: make(chan *handover.Message, 1), offered: offered,
		ended: make(chan struct{})}
	go d.guard("a child's messages", r.read)
	return r
}

func (r *requester) read() {
	defer close(r.ended)
	defer close(r.answers)
	for {
		m, fds, err := r.conn.Receive()
		if err == nil && m.Kind.Unasked() {
			r.offered(m, fds)
			continue
		}
		handover.CloseFiles(fds)
		if err != nil {
			return
		}
		if m.Kind == handover.KindPaused || m.Kind == handover.KindStopped {
			r.quiet.Store(true)
		}
		select {
		case r.answers <- m:
		default: // nobody asked: a child that talks too much is not listened to
		}
	}
}

// tell sends m, to which there is no answer, without waiting for room.
func (r *requester) tell(m *handover.Message, fds []int) error { return r.conn.SendNow(m, fds) }

// close ends the connection with a child that is gone.
//
// What else has the child's end open, as a process that it started may, is not waited for.
func (r *requester) close() {
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-r.ended:
	case <-timer.C:
	}
	_ = r.conn.Close()
}

// lastWords is how long a child's messages are awaited after its end: they are all there already.
const lastWords = time.Second

// request sends m and waits for the answer.
func (r *requester) request(
	m *handover.Message, fds []int, want handover.Kind, timeout time.Duration,
) error {
	_, err := r.consult(m, fds, want, timeout)
	return err
}

// consult is request of one who wants to know what the answer says.
func (r *requester) consult(
	m *handover.Message, fds []int, want handover.Kind, timeout time.Duration,
) (*handover.Message, error) {
	if err := r.send(m, fds); err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	return r.answer(m, want, timeout)
}

// ask sends m. What it returns waits for the answer and must be called; until then there is no
// other request.
func (r *requester) ask(
	m *handover.Message, fds []int,
) (answer func(handover.Kind, time.Duration) error, err error) {
	if err := r.send(m, fds); err != nil {
		return nil, err
	}
	return func(want handover.Kind, timeout time.Duration) error {
		defer r.mu.Unlock()
		_, err := r.answer(m, want, timeout)
		return err
	}, nil
}

// send sends m. If it could, mu is held.
func (r *requester) send(m *handover.Message, fds []int) error {
	r.mu.Lock()
	select {
	case <-r.answers: // to nothing that was asked, or to what timed out
	default:
	}
	if err := r.conn.Send(m, fds); err != nil {
		r.mu.Unlock()
		return err
	}
	return nil
}

// answer waits for that to a request. One to an earlier request that wasn't waited for is dropped.
func (r *requester) answer(
	asked *handover.Message, want handover.Kind, timeout time.Duration,
) (*handover.Message, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		select {
		case a, ok := <-r.answers:
			switch {
			case !ok:
				return nil, fmt.Errorf("%s: %w", asked.Kind, errGone)
			case a.Turn != asked.Turn:
				continue
			case a.Kind != want:
				return nil, fmt.Errorf("%s: unexpected answer %q", asked.Kind, a.Kind)
			case a.Error != "":
				return nil, fmt.Errorf("%s: %w: %s", asked.Kind, errRefused, a.Error)
			}
			return a, nil
		case <-timer.C:
			return nil, fmt.Errorf("%s: no answer in %v", asked.Kind, timeout)
		}
	}
}

// errGone says that the child has closed its end: it has ended, or soon will.
var errGone = errors.New("the process is gone")

// errRefused is an answer that says that the child can't, and why.
var errRefused = errors.New("refused")

// program is the guest process that a worker serves.
type program struct {
	pid  int32
	comm string
}

// workerProcess is a running worker. Fields below the channels are guarded by Device.mu.
type workerProcess struct {
	conn   *requester
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
	if err := w.conn.tell(m, fds); err != nil {
		log.WithError(err).Info("a worker does not take a message: it is killed")
		w.kill()
	}
}

// moverProcess is the VM's mover.
type moverProcess struct {
	conn    *requester
	proc    Process
	ready   chan struct{} // closed when it has started, or can't
	failure error         // why it can't; set before ready is closed
	exited  chan struct{} // closed when the process has ended
	killed  atomic.Bool

	left     bool // of the device process before this one
	stopping bool // the VM is idle: it serves nobody any more; guarded by Device.mu
}

func (m *moverProcess) kill() {
	m.killed.Store(true)
	m.proc.Kill()
}

// sayEnded logs how a child ended. That it was killed by this process is no news.
func sayEnded(log *logrus.Entry, child string, err error, killed bool) {
	switch {
	case killed:
		log.WithError(err).Debugf("%s was ended", child)
	case err != nil:
		log.WithError(err).Infof("%s ended", child)
	}
}

// failed says whether it is known that it could not start.
func (m *moverProcess) failed() bool {
	select {
	case <-m.ready:
		return m.failure != nil
	default:
		return false
	}
}
