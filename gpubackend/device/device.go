// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/accounts"
	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/control"
	"github.com/paracuda/paracuda/gpubackend/device/movers"
	"github.com/paracuda/paracuda/gpubackend/device/objects"
	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/device/takeover"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/idle"
	"github.com/paracuda/paracuda/gpubackend/image"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/place"
	"github.com/paracuda/paracuda/gpubackend/proclimit"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/warm"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Config is how a device is set up.
type Config struct {
	GPU        string // "soft" or "cuda"
	Settings   settings.Settings
	Generation uint32 // tells this device from an earlier one
	Sequence   uint32 // of the settings that an earlier process told the driver; 0: none did
	Version    uint32 // of the protocol; 0: wire.Version
	Build      string // of this program: a VM that was saved by another one isn't taken up
	Greeted    func() // is called when a driver has greeted; nil: nothing is
	// Replace has another device process take this one's place, which is killed; nil: none can.
	Replace  func() error
	Spawn    Spawner
	Timeouts Timeouts
	Clock    pace.Clock // for the pace of starts; nil: the real one
	// Gate is through which an arbiter tells the VM's workers whether they may give the GPU work;
	// nil: nobody does. It stays the caller's, and must be open for as long as there are workers.
	Gate *gate.Page
	// Ledger is where the VM's processes count device memory; nil: they don't. It stays the
	// caller's, as the gate does.
	Ledger *ledger.Page
	// Usage asks the GPU's driver what these processes of the host have; nil: it can't be asked. It
	// may take a while.
	Usage      func(pids []int) (ledger.Usage, error)
	AuditPause time.Duration // between two of these questions; 0: a second
	// Remains and Notes are for the device process after this one; nil: none comes. Left are the
	// workers and the mover of the one before.
	Remains *remains.Remains
	Notes   *takeover.Notes
	Left    takeover.Left
	// Suspended says that the VM was so when that ended, and Ordered that an arbiter had ordered
	// it.
	Suspended, Ordered bool
	// Sharer is told what the VM's owner wants of the arbiter; nil: nobody is.
	Sharer settings.Sharer
	// HostMemory is what the host can give for device memory that is moved out; nil: what it says
	// is available.
	HostMemory func() (uint64, error)
	Log        *logrus.Entry
}

// Timeouts are how long a worker may take. What is 0 is as in DefaultTimeouts.
type Timeouts struct {
	Start  time.Duration // to start
	Answer time.Duration // to obey a request of the device process
	Stop   time.Duration // to let go in an orderly way
	Exit   time.Duration // to be gone when it is killed
}

// DefaultTimeouts are those of Config unless it says otherwise.
var DefaultTimeouts = Timeouts{Start: 30 * time.Second, Answer: 10 * time.Second,
	Stop: 2 * time.Second, Exit: 30 * time.Second}

func (t Timeouts) withDefaults() Timeouts {
	for _, x := range []struct{ is, want *time.Duration }{
		{&t.Start, &DefaultTimeouts.Start}, {&t.Answer, &DefaultTimeouts.Answer},
		{&t.Stop, &DefaultTimeouts.Stop},
		{&t.Exit, &DefaultTimeouts.Exit},
	} {
		if *x.is == 0 {
			*x.is = *x.want
		}
	}
	return t
}

// Device is the vhost-user device of one VM.
type Device struct {
	configSpace
	crew
	config Config

	exports *exports.Exports
	objects objects.Objects
	starts  *pace.Pace

	settings *settings.VM // has a lock of its own, which is taken before mu

	movers   *movers.Movers     // has a lock of its own
	accounts *accounts.Accounts // of workers and mover; has a lock of its own
	dirty    dirtylog.Switch    // where writes to the guest's memory are marked

	suspension *suspend.Suspension // moves device memory out and in
	saving     *saving.Saving      // and its programs to a file
	place      *place.VM           // has it be where an arbiter wants it

	workers *workers.Workers
	warm    *warm.Pool[*workers.Worker] // workers without a channel; has a lock of its own

	// Nobody waits for a process while he has mu: each message of the front end needs it.
	mu       sync.Mutex
	mem      *vhostuser.Memory // the session's snapshot; guarded by mu, as is what follows
	mapped   *guestmem.Memory  // our mapping of it
	channels channels
	control  *control.Queue
	idle     *idle.VM          // when the VM was used
	late     *control.Late     // of the control queue that was stopped last
	rest     *time.Timer       // runs resumeRest; nil: no queue was stopped yet
	greeted  bool              // the driver is ours
	warming  bool              // there is a driver, for whose programs workers are kept warm
	ended    handover.Counters // of workers that are gone
}

// New makes a device.
func New(c Config) *Device {
	c.Timeouts = c.Timeouts.withDefaults()
	if c.Clock == nil {
		c.Clock = pace.Real
	}
	if c.HostMemory == nil {
		c.HostMemory = image.Host()
	}
	if c.Version == 0 {
		c.Version = wire.Version
	}
	d := &Device{config: c, configSpace: configSpace{c.Version}, crew: crew{log: c.Log},
		exports: exports.New(proclimit.Files())}
	d.settings = d.newSettings()
	d.objects = objects.Objects{Exports: d.exports, Worker: d.sharer, Answer: c.Timeouts.Start,
		Log: d.log}
	d.accounts = d.newAccounts()
	d.suspension = d.newSuspension()
	d.saving = d.newSaving()
	d.place = d.newPlace()
	d.idle = idle.New(c.Settings.IdleTime, func() { d.guard("an idle VM", d.endIdle) })
	d.accounts.SetBound(d.settings.MemoryBound())
	d.starts = pace.New(float64(c.Settings.Starts), startsBurst, c.Clock)
	d.workers, d.warm = d.newWorkers(), d.newWarm()
	d.tell()
	for i := range int(d.settings.Told().Channels) {
		d.channels = append(d.channels, newChannel(i, c.Remains, c.Log))
	}
	d.movers = d.newMovers()
	d.takeOver(c.Left)
	return d
}

// NumQueues implements vhostuser.Device.
func (d *Device) NumQueues() int { return 1 + len(d.channels) }

// SetMemory implements vhostuser.Device.
func (d *Device) SetMemory(m *vhostuser.Memory) error {
	mapped, err := m.Map()
	if err != nil {
		return err
	}
	mapped.Log(&d.dirty)
	d.mu.Lock()
	before, old := d.mem, d.mapped
	d.mem, d.mapped = m, mapped
	if d.control != nil {
		if err := d.control.SetMemory(mapped); err != nil {
			d.mem, d.mapped = before, old
			d.mu.Unlock()
			return errors.Join(fmt.Errorf("move the control queue: %w", err), mapped.Close())
		}
	}
	message, files := d.giveMemory(&handover.Message{Kind: handover.KindMemory}, nil)
	serving := d.channels.serving()
	d.mu.Unlock()
	if before == nil { // who is there was taken over, and has this memory or is told of the next
		return nil
	}
	workers.TellAll(serving, func(w *workers.Worker) error {
		m := *message
		return w.Obey(&m, files, handover.KindDone, "a process did not take the new memory")
	})
	d.tellMover()
	return old.Close()
}

// StartQueue implements vhostuser.Device.
func (d *Device) StartQueue(index int, q vhostuser.QueueConfig) error {
	if !q.Resumed {
		d.forgetBefore(index, q.Base)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mapped == nil {
		return fmt.Errorf("start queue %d: the front end has sent no memory table", index)
	}
	if index == wire.ControlQueue {
		return d.startControl(q)
	}
	c := d.channels[index-1]
	moved, err := c.queue.Start(q)
	if err != nil {
		return err
	}
	d.watchStranger(c)
	cold := c.cold
	if c.cold = nil; moved {
		cold = nil
		d.saving.Forget(c.index)
	}
	switch {
	case cold != nil:
		d.startCold(c, *cold)
	case c.worker != nil && c.goesOnBy(q.Resumed): // it was taken over
	case c.worker != nil:
		d.resume(c)
	default:
		c.queue.TakeOver(q, d.mapped)
		d.reclaim(c) // what no worker has
	}
	return nil
}

// startControl starts the control queue.
func (d *Device) startControl(q vhostuser.QueueConfig) error {
	late := d.late.For(q.Base)
	record, again := queues.ControlRecord(q, d.mapped, d.config.Remains, d.log)
	c, greeted, err := control.New(d.requests(), d.mapped, q, late, record)
	if err != nil {
		return err
	}
	if d.greeted = greeted; greeted && again && d.config.Greeted != nil {
		d.config.Greeted()
	}
	d.control, d.late = c, nil
	d.warming = true
	d.idle.DriverCame()
	d.refill()
	d.idle.Rested(d.used())
	if all, _ := d.warm.Kept(); len(all) > 0 && d.movers.Current() == nil {
		if _, err := d.movers.Need(d.moverStart); err != nil {
			d.log.WithError(err).Warn("start the mover ahead of use")
		}
	}
	return nil
}

// requests are what the control queue needs.
func (d *Device) requests() control.Device {
	return control.Device{
		Greet: d.greet, OpenChannel: d.open, CloseChannel: d.closeChannel,
		ExportObject: d.objects.Export, ImportObject: d.objects.Import, Exports: d.exports,
		Channels: uint32(len(d.channels)), Version: d.config.Version,
		Generation: d.config.Generation, Told: d.settings.Told, Parked: &d.parked,
		Exit: d.config.Timeouts.Exit, Guard: d.guard, Log: d.log,
	}
}

// SetCall implements vhostuser.Device.
func (d *Device) SetCall(index int, call *vhostuser.FD) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if index == wire.ControlQueue {
		if d.control == nil {
			return errNotRunning
		}
		return d.control.SetCall(call)
	}
	c := d.channels[index-1]
	if !c.queue.Runs() {
		return errNotRunning
	}
	if err := c.queue.SetCall(call); err != nil {
		return err
	}
	if c.worker == nil {
		return nil
	}
	m := &handover.Message{Kind: handover.KindCall}
	var fds []int
	if call != nil {
		m.Files.Call, fds = true, []int{call.Int()}
	}
	c.worker.Tell(m, fds)
	return nil
}

// StopQueue implements vhostuser.Device.
func (d *Device) StopQueue(index int) (base uint16, err error) {
	d.mu.Lock()
	d.pauseAll()
	d.mu.Unlock()
	defer d.resumeLater()
	if index == wire.ControlQueue {
		return d.stopControl()
	}
	return d.stopChannel(d.channels[index-1])
}

var errNotRunning = errors.New("queue is not running")

// stopControl stops the control queue. It waits without the lock, as the queue's goroutine may need
// it.
func (d *Device) stopControl() (uint16, error) {
	d.mu.Lock()
	c := d.control
	d.control = nil
	d.mu.Unlock()
	if c == nil {
		return 0, errNotRunning
	}
	base, late := c.Stop()
	if late.Nothing() {
		d.config.Remains.Drop(remains.Control)
	}
	d.mu.Lock()
	d.late = late
	d.mu.Unlock()
	return base, nil
}

// Abandon implements vhostuser.Device.
func (d *Device) Abandon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.killWorkers()
}

// killWorkers ends all workers. None is started in their place.
func (d *Device) killWorkers() {
	d.warming = false
	d.idle.Gone()
	d.refill()
	for _, c := range d.channels {
		d.saving.Forget(c.index)
		if c.cold = nil; c.worker != nil {
			c.worker.Retire()
			c.worker.Kill()
		}
	}
}

// Reset implements vhostuser.Device: all workers end. The memory stays: the front end gives it when
// the device is made, and not again. Processes that were killed and don't end are not waited for.
func (d *Device) Reset() {
	d.mu.Lock()
	d.killWorkers()
	d.movers.Kill()
	d.mu.Unlock()
	if !await.Within(d.config.Timeouts.Exit, d.running.Gone()) {
		d.log.Error("processes that were killed do not end: see the kernel's log")
	}
	d.exports.Clear()
}

// Counters adds up what all workers counted.
func (d *Device) Counters() handover.Counters {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.channels.counted(d.ended)
}
