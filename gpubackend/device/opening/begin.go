// SPDX-License-Identifier: Apache-2.0

package opening

import (
	"errors"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/channels"
	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// beginning is a program for which a worker is to be started.
type beginning struct {
	workers.Program
	channel int
	warm    bool                             // a warm one is good enough
	gpu     uint32                           // that it uses first, as it says
	quit    <-chan struct{}                  // closed when nobody waits for it any more
	may     func(*channels.Assignment) error // says why not, if that isn't possible any more
	again   bool                             // in the place of one that is gone
	saved   *saving.Source                   // what it goes on from; nil for most
	anew    bool                             // and the driver has given again what its worker held
	// it comes before the guest's memory and its queue: the worker gets both with a resume message
	arrives bool
}

// tries is how often a worker is started: once with a warm one, and once without.
const tries = 2

// begin starts a channel's worker, a warm one if there is one and it may.
func (o *Opening) begin(b *beginning) (w *workers.Worker, err error) {
	defer o.Ahead.Begin()()
	useWarm := b.warm
	for range tries {
		var warm *workers.Worker
		if useWarm {
			warm = o.Ahead.Take(b.gpu, b.quit)
		}
		if warm == nil && !o.awaitTurn(b) {
			return nil, errQuit
		}
		w, err = o.start(b, warm)
		switch {
		case err == nil, warm == nil, errors.Is(err, errBusy),
			errors.Is(err, queues.ErrNotRunning):
			return w, err
		default:
			o.Log.WithField("channel", b.channel).WithError(err).Info(
				"a worker that was started ahead of use does not take its channel")
			useWarm = false
		}
	}
	return w, err
}

// can says whether a worker may be started for a channel, as far as is known now.
func (o *Opening) can(b *beginning) bool {
	if b.arrives { // there is neither memory nor a running queue yet
		return o.Channels.Worker(b.channel) == nil
	}
	return o.Channels.Free(b.channel)
}

// awaitTurn waits until a worker may be started for a channel that can have one. It returns false
// if nobody waits for it any more.
func (o *Opening) awaitTurn(b *beginning) bool {
	if !o.can(b) || o.Channels.Awaited(b.channel) {
		return true
	}
	return o.Starts.Wait(b.quit)
}

// start hands a channel's queue to a worker: to warm, or, if that is nil or of no use, to one that
// it starts.
func (o *Opening) start(b *beginning, warm *workers.Worker) (*workers.Worker, error) {
	var ready func(handover.Kind, time.Duration) error
	w, err := o.Channels.Assign(b.channel, b.Program,
		func(as *channels.Assignment) (w *workers.Worker, err error) {
			w, ready, err = o.handOver(as, b, warm)
			return w, err
		})
	if err != nil {
		return nil, err
	}
	limit := o.Start
	if b.saved != nil {
		limit += workers.RecordTakes(b.saved.Bytes)
	}
	if err := o.Channels.Serves(w, ready(handover.KindReady, limit)); err != nil {
		w.Kill()
		w.AwaitEnd()
		return nil, err
	}
	return w, nil
}

// handOver sends a worker everything that it needs for a channel. What it returns waits for the
// answer. The lock of the channels is held.
func (o *Opening) handOver(as *channels.Assignment, b *beginning, warm *workers.Worker) (
	w *workers.Worker, ready func(handover.Kind, time.Duration) error, err error) {
	if err := b.may(as); err != nil {
		o.Ahead.PutBack(warm)
		return nil, nil, err
	}
	entry, err := o.Accounts.Reserve()
	if err != nil {
		o.Ahead.PutBack(warm)
		return nil, nil, err
	}
	if w, err = o.usable(warm); err != nil {
		o.Accounts.Release(entry)
		return nil, nil, err
	}
	o.Accounts.Serve(w, entry, b.PID)
	if b.saved != nil {
		o.Exports.Begins(&w.Offers, b.channel)
	} else {
		o.Exports.Serves(&w.Offers, b.channel)
	}
	if b.again {
		w.State(func(s *handover.State) { s.AskCold() })
	}
	o.RAM.Use(func(mem *guestmem.Memory) {
		m, fds := o.message(as, b, w, mem)
		if b.again {
			o.Begins(w, as.Base())
		}
		ready, err = w.Conn().Ask(m, fds)
	})
	if err != nil {
		w.Kill()
		return nil, nil, err
	}
	return w, ready, nil
}

// usable is the warm worker, or a new one if that is nil or of no use.
func (o *Opening) usable(warm *workers.Worker) (*workers.Worker, error) {
	policy := o.Settings.Now().Policy
	if warm != nil && !warm.Ended() && warm.Policy == policy {
		return warm, nil
	}
	if warm != nil {
		warm.Kill()
		o.Starts.Take()
	}
	return o.Workers.Start(policy, workers.Cold)
}

// message is what a worker must know, and the files that go with it.
func (o *Opening) message(
	as *channels.Assignment, b *beginning, w *workers.Worker, mem *guestmem.Memory,
) (*handover.Message, []int) {
	var m *handover.Message
	var fds []int
	if b.arrives {
		m, fds = as.StartBare(w)
		mem = nil
	} else {
		m, fds = as.Start(w, b.saved != nil, b.anew)
	}
	policy := o.Settings.Now().Policy
	m.GPU, m.PID, m.Comm, m.Policy = o.GPU, b.PID, b.Name, &policy
	m.Held = o.Held()
	if b.saved != nil {
		m.Filed = b.saved.Filed
		if b.saved.Image != nil {
			m.Files.Image, fds = true, append(fds, int(b.saved.Image.Fd()))
		}
	}
	fds = m.GiveLog(o.RAM.Log(), fds)
	fds = o.Accounts.Pass(m, fds, w)
	if b.saved != nil {
		lanes := b.saved.From.FDs()
		m.Files.Lanes, fds = len(lanes), append(fds, lanes...)
	}
	switch {
	case w.Confined():
		m.Asks = w.Asks()
		return m, o.RAM.DescribeTo(m.Asks, mem, m, fds)
	case o.Asks: // it gets the guest's memory later
		m.Asks = true
		return m, fds
	}
	return m, ram.Describe(mem, m, fds)
}
