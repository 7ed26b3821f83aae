// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/accounts"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/device/ahead"
	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/away"
	"github.com/paracuda/paracuda/gpubackend/device/channels"
	"github.com/paracuda/paracuda/gpubackend/device/control"
	"github.com/paracuda/paracuda/gpubackend/device/faults"
	"github.com/paracuda/paracuda/gpubackend/device/figures"
	"github.com/paracuda/paracuda/gpubackend/device/incoming"
	"github.com/paracuda/paracuda/gpubackend/device/infile"
	"github.com/paracuda/paracuda/gpubackend/device/mappings"
	"github.com/paracuda/paracuda/gpubackend/device/movers"
	"github.com/paracuda/paracuda/gpubackend/device/objects"
	"github.com/paracuda/paracuda/gpubackend/device/opening"
	"github.com/paracuda/paracuda/gpubackend/device/outgoing"
	"github.com/paracuda/paracuda/gpubackend/device/passes"
	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/reach"
	"github.com/paracuda/paracuda/gpubackend/device/savedstate"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/device/strangers"
	"github.com/paracuda/paracuda/gpubackend/device/takeover"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/hostuse"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/numbering"
	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/place"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/shares"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// Config is how a device is set up.
type Config struct {
	GPU        string   // "soft" or "cuda"
	Counted    []uint64 // the VM's GPUs in its order, by the ledger's ids; nil: not known
	Settings   settings.Settings
	Generation uint32 // tells this device from an earlier one
	Vouchers   uint64 // where the VM's driver vouches for pages, if one was there before
	Version    uint32 // of the protocol; 0: wire.Version
	Build      string // of this program: a VM that was saved by another one isn't taken up
	Greeted    func() // is called when a driver has greeted; nil: nothing is
	// Trouble is what the server of the front end's socket knows; nil: nobody looks.
	Trouble func() []admin.Trouble
	// Replace makes another device process take this one's place, and kill it; nil: that isn't
	// possible.
	Replace  func() error
	Spawn    Spawner
	Timeouts Timeouts
	// Asks says that workers confine themselves before they get the guest's memory. Numbers stand
	// for its files then. They stay the caller's, as the gate does.
	Asks    bool
	Numbers *numbering.Numbers
	Opener  ram.Opener // of files of the guest's memory; nil: nobody can
	// Make makes a file in memory for a worker; nil: workers make them.
	Make  func(pid int, f memfd.Form) (*os.File, error)
	Clock pace.Clock // for the pace of starts; nil: the real one
	// Gate is the page on which an arbiter tells the VM's workers whether they may give the GPU
	// work; nil: nobody does. It stays the caller's, and must be open for as long as there are
	// workers.
	Gate *gate.Page
	// Ledger is where the VM's processes count device memory; nil: they don't. It stays the
	// caller's, as the gate does.
	Ledger *ledger.Page
	// Usage asks the GPU's driver what these processes of the host have; nil: it can't be asked. It
	// may take a while.
	Usage func(pids []int) (ledger.Usage, error)
	// Weigh asks the kernel how much of the host's memory they have; nil: it can't be asked.
	Weigh      func(pids []int) (map[int]hostuse.Bytes, error)
	AuditPause time.Duration // between two of these questions; 0: a second
	// Remains and Notes are for the next device process; nil: there is none. Before is what the
	// previous one left.
	Remains *remains.Remains
	Notes   *takeover.Notes
	Before  Inherited
	// From is the file from which the VM goes on by itself, if its programs are in that one; nil:
	// none.
	From *saving.File
	// Sharer is told what the VM's owner wants of the arbiter; nil: nobody is.
	Sharer settings.Sharer
	// HostMemory is how much the host can give for device memory that is moved out; nil: what it
	// says is available.
	HostMemory func() (uint64, error)
	Log        *logrus.Entry
}

// Inherited is what a device process goes on from when it takes the place of another one. The zero
// value says that there was none.
type Inherited struct {
	Left     takeover.Left // its workers and its mover
	Sequence uint32        // of the settings that it told the driver; 0: it told none
	// Suspended says that the VM was suspended when it ended, and Ordered that an arbiter had
	// ordered that.
	Suspended, Ordered bool
	// InFile says in which file the VM's programs were then (package saving); nil: in none.
	InFile []byte
}

// Timeouts are how long a worker may take. 0 means the value of DefaultTimeouts.
type Timeouts struct {
	Start  time.Duration // to start
	Answer time.Duration // to obey a request of the device process
	Stop   time.Duration // to let go in an orderly way
	Exit   time.Duration // to be gone when it is killed
}

// DefaultTimeouts are those of a Config that doesn't say otherwise.
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

// Device is the vhost-user device of one VM: the session's queues and memory, and the parts that
// serve them. Each part has locks of its own.
type Device struct {
	configSpace
	crew
	config Config

	// What its owner wants and is told.
	settings *settings.VM
	figures  *figures.VM
	faults   *faults.Faults // of its GPUs

	// Its front end, and the driver behind it.
	control   *control.Queue
	strangers *strangers.Watch // drivers that aren't ours
	ram       *ram.RAM
	mappings  *mappings.Mappings // what workers map of it
	away      *away.Away         // prepares the driver for the device to be away

	// Its processes, and who has which.
	workers    *workers.Workers
	movers     *movers.Movers
	channels   *channels.Table
	standstill *channels.Standstill // its queues are about to be stopped
	serving    workers.All          // those that have a channel
	ahead      *ahead.Ahead         // what is held before programs ask for it
	opening    *opening.Opening
	reach      *reach.Reach // which workers have the mover

	// What programs share.
	exports *exports.Exports
	shares  *shares.Broker
	objects objects.Objects

	// Device memory.
	accounts   *accounts.Accounts  // of workers and mover
	suspension *suspend.Suspension // moves it out and in
	place      *place.VM           // moves it to where an arbiter wants it

	// How its programs go on elsewhere.
	passes   *passes.Passes     // copy device memory while programs run
	saving   *saving.Saving     // to a file
	infile   *infile.VM         // and from it, in another process or elsewhere
	saved    *savedstate.VM     // with all of the VM, by its front end
	outgoing *outgoing.Outgoing // sends device memory ahead of a migration
	incoming *incoming.Incoming // and keeps what comes ahead
	live     atomic.Bool        // the front end began to migrate the VM while that ran
}

// NumQueues implements vhostuser.Device.
func (d *Device) NumQueues() int { return 1 + d.channels.Len() }

// SetMemory implements vhostuser.Device.
func (d *Device) SetMemory(m *vhostuser.Memory) error {
	mapped, err := d.ram.Map(m)
	if err != nil {
		return err
	}
	if err := d.control.SetMemory(mapped); err != nil {
		return errors.Join(fmt.Errorf("move the control queue: %w", err), mapped.Close())
	}
	before := d.ram.Put(mapped)
	if before != nil { // else workers that are there were taken over, and have this memory
		d.serving.Memory(d.ram.MessageTo)
	}
	d.movers.Tell(d.ram.Message) // which ends what workers copied that have ended, too
	if before == nil {
		return nil
	}
	return before.Close()
}

// StartQueue implements vhostuser.Device.
func (d *Device) StartQueue(index int, q vhostuser.QueueConfig) error {
	mem := d.ram.Now() // only the session changes it
	switch begins := queues.Begins(q, mem); {
	case begins && index == wire.ControlQueue:
		d.channels.DriverBegins()
	case begins:
		d.channels.Begins(index - 1)
	}
	if index == wire.ControlQueue {
		if err := d.control.Start(q, mem); err != nil {
			return err
		}
		d.ahead.DriverCame()
		return nil
	}
	if err := d.channels.Start(index-1, q); err != nil {
		return fmt.Errorf("start queue %d: %w", index, err)
	}
	d.infile.Started()
	return nil
}

// SetCall implements vhostuser.Device.
func (d *Device) SetCall(index int, call *vhostuser.FD) error {
	if index == wire.ControlQueue {
		return d.control.SetCall(call)
	}
	return d.channels.SetCall(index-1, call)
}

// StopQueue implements vhostuser.Device.
func (d *Device) StopQueue(index int) (base uint16, err error) {
	d.standstill.Pause()
	defer d.standstill.ResumeLater()
	if index == wire.ControlQueue {
		return d.control.Stop()
	}
	return d.channels.Stop(index - 1)
}

// Abandon implements vhostuser.Device: all workers end, and none is started in their place.
func (d *Device) Abandon() {
	d.ahead.DriverGone()
	d.channels.KillAll()
}

// Reset implements vhostuser.Device: all workers end. The memory stays: the front end sends it only
// once. It doesn't wait for processes that were killed and don't end.
func (d *Device) Reset() {
	d.Abandon()
	d.movers.Kill()
	if !await.Within(d.config.Timeouts.Exit, d.running.Gone()) {
		d.log.Error("processes that were killed do not end: see the kernel's log")
		d.movers.GiveUp()
	}
	d.exports.Clear()
}

// SetLog implements vhostuser.DirtyLogger. A front end that migrates the VM is told which pages are
// written to: by this process through package ram, by the workers and the mover through logs of
// their own on the same bitmap.
//
// Workers mark what they hold for the GPU before they say that they have paused or stopped. A
// worker that ends without having said so, and a mover, may have written to any page that it had:
// then all of the guest's memory is marked, which makes the migration longer, but harms nobody.
func (d *Device) SetLog(log *dirtylog.Log) error {
	d.live.Store(log != nil && d.control.Runs())
	d.ram.SetLog(log)
	message := func() (*handover.Message, []int) {
		m := &handover.Message{Kind: handover.KindLog}
		return m, m.GiveLog(log, nil)
	}
	d.serving.Log(message)
	d.movers.TellLog(message)
	return nil
}

// SaveState implements vhostuser.StateSaver. Nothing ends: the VM may go on here.
func (d *Device) SaveState(w io.Writer) error { return d.saved.Save(w) }

// LoadState implements vhostuser.StateSaver.
func (d *Device) LoadState(r io.Reader) error { return d.saved.Load(r) }

// forget ends all that the device has of its guest: QEMU's loadvm puts another in its place, or an
// earlier state of it.
func (d *Device) forget() {
	d.Reset()
	d.channels.ForgetHeld()
	d.control.Forget()
}

// Counters adds up what all workers have counted.
func (d *Device) Counters() handover.Counters { return d.channels.Counters() }
