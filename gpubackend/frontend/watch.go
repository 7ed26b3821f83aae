// SPDX-License-Identifier: Apache-2.0

// Package frontend watches what a VM's front end shows of itself, and logs what keeps the guest's
// driver from the device: neither the guest's owner nor the front end knows the options of both
// sides.
package frontend

import (
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
)

// Times are how long a watch waits before it says something. 0 stands for the value in
// DefaultTimes.
type Times struct {
	Settle time.Duration // a front end that has named a queue names the others within this
	Driver time.Duration // a guest has its driver running within this
}

// DefaultTimes suit a guest that boots slowly.
var DefaultTimes = Times{Settle: 5 * time.Second, Driver: 2 * time.Minute}

// Watch watches one connection.
type Watch struct {
	log    *logrus.Entry // the guest can't make it repeat a line
	queues int           // of the device

	mu      sync.Mutex
	shown   vhostuser.Shown // guarded by mu, as is what follows
	greeted bool            // the driver is ours
	queued  *Trouble        // that the number of queues is wrong, if that was logged
	lacking *Trouble        // that no driver came, if that was logged
	settle  *time.Timer
	driver  *time.Timer
}

// Trouble is what keeps the guest's driver from the device, or from all of it, and what fixes that.
type Trouble struct{ Found, Fix string }

// shared are QEMU's options for memory that it shares.
const shared = "-object memory-backend-memfd,id=mem,size=SIZE,share=on -machine memory-backend=mem"

// say logs the trouble.
func (t *Trouble) say(log *logrus.Entry) { log.Warn(t.Found + ": " + t.Fix) }

// Trouble lists what was logged and still holds.
func (w *Watch) Trouble() (all []Trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shown.Unshared { // the session has logged it
		all = append(all, Trouble{"the guest's memory is not shared with the device",
			"start QEMU with " + shared})
	}
	if w.queued != nil {
		all = append(all, *w.queued)
	}
	if w.lacking != nil && !w.greeted {
		all = append(all, *w.lacking)
	}
	return all
}

// New begins to watch a front end of a device with so many queues.
func New(log *logrus.Entry, queues int, t Times) *Watch {
	if t.Settle == 0 {
		t.Settle = DefaultTimes.Settle
	}
	if t.Driver == 0 {
		t.Driver = DefaultTimes.Driver
	}
	w := &Watch{log: loglimit.Keep(log), queues: queues}
	w.settle = time.AfterFunc(t.Settle, w.count)
	w.driver = time.AfterFunc(t.Driver, func() { w.noDriver(t.Driver) })
	return w
}

// Stop ends the watch.
func (w *Watch) Stop() {
	w.settle.Stop()
	w.driver.Stop()
}

// Saw takes what the front end has shown so far.
func (w *Watch) Saw(s vhostuser.Shown) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Driver {
		w.compare() // the queues that were named before a driver came
	}
	w.shown = s
	if s.Read || s.Queues > w.queues {
		w.compare()
	}
}

// Greeted says that our driver has the device.
func (w *Watch) Greeted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.greeted = true
	w.driver.Stop()
}

// HasDriver says whether our driver has the device.
func (w *Watch) HasDriver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.greeted
}

// count compares the queues once all are named.
func (w *Watch) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compare()
}

// generic says whether the front end is a generic device, which passes our configuration space on.
// One that doesn't is a file system's device, or a generic one without config_size: these two can't
// be told apart.
func (w *Watch) generic() bool { return w.shown.Protocol&vhostuser.ProtocolConfig != 0 }

// option is the option of QEMU that gives a front end n queues.
func (w *Watch) option(queues int) string {
	if w.generic() {
		return fmt.Sprintf("num_vqs=%d", queues)
	}
	return fmt.Sprintf("num-request-queues=%d (a generic device: num_vqs=%d and config_size=%d)",
		queues-1, queues, wire.ConfigRoom)
}

// compare says once that the front end has more or fewer queues than the device. Some front ends
// name no queue before a driver uses it, and then as many as the driver wants.
func (w *Watch) compare() {
	n := w.shown.Queues
	if n == 0 || n == w.queues || w.queued != nil || w.shown.Driver {
		return
	}
	w.queued = &Trouble{
		Found: "the front end has more queues than the device",
		Fix: fmt.Sprintf("in QEMU's command line, give the device %s, or start paracuda device "+
			"with --set channels=%d", w.option(w.queues), max(n-1, 1)),
	}
	if n < w.queues {
		w.queued.Found = fmt.Sprintf("the front end has fewer queues than the device, which "+
			"leaves %d of %d channels", n-1, w.queues-1)
	}
	w.queued.say(w.log.WithFields(logrus.Fields{"front-end": n, "device": w.queues}))
}

// noDriver logs that nobody uses the device.
func (w *Watch) noDriver(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.greeted {
		return
	}
	options := fmt.Sprintf("-device vhost-user-test-device-pci,virtio-id=%d,num_vqs=%d,"+
		"vq_size=256,config_size=%d", wire.VirtioIdStock, w.queues, wire.ConfigRoom)
	if !w.generic() {
		options = fmt.Sprintf("-device vhost-user-fs-pci,tag=%s,num-request-queues=%d,"+
			"queue-size=1024, or %s", wire.FsTag, w.queues-1, options)
	}
	w.lacking = &Trouble{
		Found: fmt.Sprintf("no driver in the guest has taken the device in %v", after),
		Fix: "install the guest package there, and have these in QEMU's command line: " + options +
			"; the guest kernel's log says more",
	}
	w.lacking.say(w.log)
}
