// SPDX-License-Identifier: Apache-2.0

package control

import "github.com/paracuda/paracuda/gpubackend/wire"

// watch is a request of the driver's to be told when the settings change. All of it belongs to the
// control queue's goroutine, except settingsChanged.
type watch struct {
	answer answer
	known  uint32 // sequence of the settings that the driver has
}

// begin takes a request. There is one at a time: an earlier one is answered.
func (c *serving) begin(w *watch) {
	c.endWatch()
	c.watch = w
	c.lookAtSettings()
}

// lookAtSettings answers the request if the driver's settings are out of date.
func (c *serving) lookAtSettings() {
	if c.watch != nil && c.watch.known != c.Told().Sequence {
		c.endWatch()
	}
}

// endWatch answers the request with the settings, changed or not.
func (c *serving) endWatch() {
	if c.watch == nil {
		return
	}
	a := c.watch.answer
	c.watch = nil
	a.settings = c.Told()
	c.respond(a)
}

// settingsChanged makes the goroutine look at the settings. It never waits, and may be called from
// anywhere.
func (c *serving) settingsChanged() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// RoomForSettings is what a response to HELLO or SETTINGS takes.
const RoomForSettings = wire.ControlResponseSize + wire.SettingsSize
