// SPDX-License-Identifier: Apache-2.0

package device

import (
	"sync"

	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// memoryMessage tells a process of the guest's memory. Its files are those of Device.mapped.
// Device.mu is held.
func (d *Device) memoryMessage() (*handover.Message, []int) {
	regions, files := handover.Describe(d.mapped.Regions())
	return &handover.Message{
		Kind: handover.KindMemory, Memory: regions, Files: handover.Files{Memory: len(files)},
	}, files
}

// memoryTeller tells a worker of the memory that there is now. Device.mu is held.
func (d *Device) memoryTeller() func(*child.Conn) error {
	m, files := d.memoryMessage()
	return func(conn *child.Conn) error {
		err := conn.Request(m, files, handover.KindDone, d.config.Timeouts.Answer)
		if err != nil {
			d.log.WithError(err).Warn("a process did not take the new memory")
		}
		return err
	}
}

// tellWorkers tells workers of the new memory and waits until they use that only. One that doesn't
// answer is killed, which has the same effect when it is gone.
func (d *Device) tellWorkers(workers []*workerProcess, tell func(*child.Conn) error) {
	var told sync.WaitGroup
	for _, w := range workers {
		told.Go(func() {
			if !w.killed.Load() && tell(w.conn) == nil {
				return
			}
			w.kill()
			w.awaitEnd()
		})
	}
	told.Wait()
}

// tellMover has the mover use the memory that there is now, and end the copies of workers that are
// gone.
func (d *Device) tellMover() {
	d.movers.Tell(func() (*handover.Message, []int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.memoryMessage()
	})
}
