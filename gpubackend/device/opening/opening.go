// SPDX-License-Identifier: Apache-2.0

// Package opening gives a guest's program its worker: when its channel is opened, one that was
// started ahead of use (package ahead) or a new one; a cold one after a warm one that didn't suit
// it; or one that goes on from a file or a stream (package saving).
//
// A guest can cause starts of workers without end, each a process of the host that initialises the
// GPU. So starts have a pace (setting starts). An OPEN that comes too early waits, and so does a
// warm worker. A start that can't wait makes later ones wait longer.
//
// # Who owns what
//
// An Opening has no state, and no lock. Whether a channel may have a worker is decided under the
// lock of the channels (channels.Assign), under which the worker is sent everything that it needs;
// nobody waits under it.
//
// # Who may lie
//
// The guest, about channels: it is bounded by the number of channels, setting processes and the
// pace. Workers, also warm ones. If one doesn't take its channel, another one is started in its
// place, a few times.
//
// # Files
//
// opening.go (who begins), begin.go (how), takeover.go (workers that are there already).
package opening

import (
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/accounts"
	"github.com/paracuda/paracuda/gpubackend/device/ahead"
	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/channels"
	"github.com/paracuda/paracuda/gpubackend/device/control"
	"github.com/paracuda/paracuda/gpubackend/device/mappings"
	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/shares"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Burst is how many workers may be started at once, if there were few starts before: one for each
// channel.
const Burst = wire.MaxChannels

// Config is what an Opening consists of.
type Config struct {
	GPU      string
	Channels *channels.Table
	Workers  *workers.Workers
	Ahead    *ahead.Ahead
	Accounts *accounts.Accounts
	Exports  *exports.Exports
	Shares   *shares.Broker
	Settings *settings.VM
	RAM      *ram.RAM
	Mappings *mappings.Mappings
	Asks     bool // workers confine themselves before they get the guest's memory
	// Left says whether the processes of the previous device process are gone.
	Left   func(quit <-chan struct{}) bool
	Starts *pace.Pace             // how often a worker may be started
	Held   func() bool            // the VM is suspended: workers begin as drained ones
	Saved  func(channel int) bool // its program is in a file
	Start  time.Duration          // that a worker may take to start
	Answer time.Duration          // for which a channel's queue is awaited
	// Rejoin is told the position of a worker that was taken over; nil: it is gone. It says whether
	// the worker goes on.
	Rejoin func(suspend.Worker, *suspend.Standing) bool
	// Begins is told of a worker that begins in the place of one that is gone, before it can serve,
	// and where its queue begins.
	Begins func(w *workers.Worker, base uint16)
	// HandOwed hands a worker that was taken over what its program has imported meanwhile.
	HandOwed func(channel int)
	// Joins is told of a worker that has a connection to the mover.
	Joins func(*workers.Worker)
	// Run runs a part of this package on a goroutine, and survives its faults.
	Run func(part string, f func())
	Log *logrus.Entry
}

// Opening starts the workers of a VM's programs.
type Opening struct{ Config }

// New makes one.
func New(c Config) *Opening { return &Opening{c} }

var (
	errBusy  = errors.New("the channel has a worker")
	errQuit  = errors.New("the control queue stops")
	errLeft  = errors.New("a process of the device process before this one does not end")
	errStuck = errors.New("a worker that was killed does not end")
)

// Open starts a worker for a channel and returns the status for the driver.
func (o *Opening) Open(index int, pid int32, name string, a control.Asking) uint32 {
	begin, p := time.Now(), workers.Program{PID: pid, Name: name}
	log := o.Log.WithField("channel", index)
	o.awaitQueue(index, a.Quit)
	if o.Channels.HasOpened(index, p) {
		return wire.StatusOk
	}
	if !o.Left(a.Quit) {
		log.Error(errLeft)
		return wire.StatusNoWorker
	}
	may := func(as *channels.Assignment) error {
		most := o.Settings.Now().Settings.Processes
		switch {
		case await.Closed(a.Dropped), !as.Runs():
			return queues.ErrNotRunning
		case as.Worker() != nil || as.Cold() != nil || o.Saved(index),
			most != 0 && as.Taken() >= most:
			return errBusy
		}
		return nil
	}
	w, err := o.begin(&beginning{channel: index, Program: p, warm: true, gpu: a.GPU, quit: a.Quit,
		may: may})
	o.Ahead.Refill()
	log = log.WithFields(logrus.Fields{"program": name, "guest_pid": pid})
	switch {
	case errors.Is(err, queues.ErrNotRunning):
		return wire.StatusBadRequest
	case errors.Is(err, errBusy):
		return wire.StatusBusy
	case errors.Is(err, errQuit):
		return wire.StatusNoWorker
	case err != nil:
		log.WithError(err).Error("start a worker")
		return wire.StatusNoWorker
	}
	log = log.WithField("took", time.Since(begin))
	if w.Ahead {
		log = log.WithField("warm_gpu", w.Home)
	}
	log.Debug("channel is open")
	return wire.StatusOk
}

// awaitQueue waits for a channel's queue. The control queue is started first, and a quick driver
// asks for a channel while the front end's messages about its queue are still on their way.
func (o *Opening) awaitQueue(index int, quit <-chan struct{}) {
	timer := time.NewTimer(o.Answer)
	defer timer.Stop()
	select {
	case <-o.Channels.Started(index):
	case <-quit:
	case <-timer.C:
	}
}

// Cold starts the cold worker of a program whose warm one is gone, without waiting. If that fails,
// the program loses its queue.
func (o *Opening) Cold(index int, p *workers.Program) {
	may := func(as *channels.Assignment) error {
		switch {
		case as.Cold() != p || !as.Runs():
			return queues.ErrNotRunning
		case as.Worker() != nil:
			return errBusy
		}
		return nil
	}
	o.Run("a cold worker", func() {
		o.Starts.Take()
		err := errLeft
		if o.Left(nil) {
			_, err = o.begin(&beginning{channel: index, Program: *p, may: may, again: true})
		}
		if err != nil && o.Channels.ColdFailed(index, p) {
			o.Log.WithField("channel", index).WithError(err).Error("start a worker")
		}
	})
}

// Resume starts the worker of a program in a file.
func (o *Opening) Resume(
	p *saving.Program, from saving.Source, still func() bool,
) (saving.Worker, error) {
	may := func(as *channels.Assignment) error {
		if !still() || !as.Runs() {
			return queues.ErrNotRunning
		}
		return free(as)
	}
	o.awaitQueue(p.Channel, nil) // which the front end may be about to start
	if !o.Left(nil) {            // the program's worker may be among them
		return nil, errLeft
	}
	o.Starts.Take()
	w, err := o.begin(&beginning{channel: p.Channel, saved: &from, anew: p.Anew, may: may,
		Program: workers.Program{PID: p.PID, Name: p.Name}})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Arrive starts the worker of a program that comes from another device process. It begins as a
// paused one, and gets the guest's memory with its queue.
func (o *Opening) Arrive(p *saving.Program, from saving.Source) (saving.Worker, error) {
	o.Starts.Take()
	w, err := o.begin(&beginning{channel: p.Channel, saved: &from, arrives: true, may: free,
		Program: workers.Program{PID: p.PID, Name: p.Name}})
	if err != nil {
		return nil, err
	}
	o.Channels.Arrived(w)
	return w, nil
}

// free says why a channel can have no worker now.
func free(as *channels.Assignment) error {
	switch w := as.Worker(); {
	case w != nil && w.Stuck():
		return errStuck
	case w != nil:
		return errBusy
	}
	return nil
}
