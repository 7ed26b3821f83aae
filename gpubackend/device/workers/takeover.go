// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Taken is what is left of a worker of another device process that serves a channel.
type Taken struct {
	Proc    child.Process
	Conn    *handover.Conn
	State   *handover.State
	Channel int
	Program Program
	Ahead   bool // it was started ahead of use
}

// TakeOver makes a worker of that. known is told of it before anything else, in place of
// Config.Began. Meet must be called next.
func (x *Workers) TakeOver(t Taken, policy handover.Policy, known func(*Worker)) *Worker {
	w := &Worker{
		Policy: policy, Ahead: t.Ahead, config: &x.config, proc: t.Proc, state: t.State,
		began: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{}),
		rings: rings{came: make(chan struct{})},
	}
	w.Serve(t.Channel, t.Program)
	known(w)
	w.converse(t.Conn)
	x.config.Run("a worker's end", func() { w.await() })
	return w
}

// Meet asks a worker that was taken over for its position. One that doesn't answer is killed.
func (w *Worker) Meet() (*handover.Standing, bool) {
	standing, err := w.conn.TakeOver(w.config.Limits.Exit)
	if err == nil && standing.Asks != w.Asks() {
		err = errAsks
	}
	if err == nil {
		return standing, true
	}
	if !errors.Is(err, child.ErrGone) && !w.isGone(err) {
		w.Log().WithError(err).Warn("a worker isn't taken over: it is killed")
	}
	w.Kill()
	return nil, false
}

// errAsks says that a worker can't map anything any more, or says so.
var errAsks = errors.New("nobody can decide on its mappings, or it doesn't ask")

// Process is its process.
func (w *Worker) Process() child.Process { return w.proc }
