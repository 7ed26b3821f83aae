// SPDX-License-Identifier: Apache-2.0

package device

import "github.com/paracuda/paracuda/gpubackend/wire"

// A guest can have workers started without end: each is a process of the host's that initialises
// the GPU. So starts have a pace (setting starts). An OPEN that comes too early waits, and so does
// a warm worker. A start that can't wait, since the lock is held for it, makes those that come
// later wait longer.

// startsBurst is how many workers are started at once, if there were fewer before: one for each
// channel.
const startsBurst = wire.MaxChannels

// awaitTurn waits until a worker may be started for a channel that can have one. It returns false
// when quit is closed first.
func (d *Device) awaitTurn(c *channel, quit <-chan struct{}) bool {
	d.mu.Lock()
	none := !c.queue.Runs() || c.worker != nil || c.cold != nil
	d.mu.Unlock()
	return none || d.starts.Wait(quit)
}
