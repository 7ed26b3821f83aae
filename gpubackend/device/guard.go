// SPDX-License-Identifier: Apache-2.0

package device

import (
	"runtime/debug"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
)

// crew runs the parts of a device, and knows which go on. It has locks of its own.
type crew struct {
	log     *logrus.Entry
	running await.Crowd  // processes, and what waits for them
	parked  atomic.Int32 // requests that wait for processes which don't end
}

// guard runs a part of the device, and says whether it came to its end. A front end can't reconnect
// to another device process, so a fault may cost the guest one request or program, and no more.
func (c *crew) guard(part string, f func()) (done bool) {
	defer func() {
		if r := recover(); r != nil {
			loglimit.Keep(c.log).WithField("stack", string(debug.Stack())).Errorf("%s panicked: %v",
				part, r)
			done = false
		}
	}()
	f()
	return true
}

// run runs a part of the device on a goroutine of its own, for which Reset waits.
func (c *crew) run(part string, f func()) {
	c.running.Add(1)
	go c.guard(part, func() {
		defer c.running.Done()
		f()
	})
}

// park waits, for a request of the guest's, for something that may never come.
func (c *crew) park(end <-chan struct{}) {
	c.parked.Add(1)
	defer c.parked.Add(-1)
	<-end
}
