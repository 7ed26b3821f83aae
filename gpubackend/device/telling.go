// SPDX-License-Identifier: Apache-2.0

package device

import (
	"sync"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// memoryMessage returns what tells a process of the guest's memory. Its files are those of
// Device.mapped.
func (d *Device) memoryMessage() func(*requester) error {
	regions, files := handover.Describe(d.mapped.Regions())
	return func(conn *requester) error {
		m := &handover.Message{
			Kind: handover.KindMemory, Memory: regions, Files: handover.Files{Memory: len(files)},
		}
		err := conn.request(m, files, handover.KindDone, d.config.Timeouts.Answer)
		if err != nil {
			d.log.WithError(err).Warn("a process did not take the new memory")
		}
		return err
	}
}

// tellWorkers tells workers of the new memory and waits until they use that only. One that doesn't
// answer is killed, which has the same effect when it is gone.
func (d *Device) tellWorkers(workers []*workerProcess, tell func(*requester) error) {
	var told sync.WaitGroup
	for _, w := range workers {
		told.Go(func() {
			if !w.killed.Load() && tell(w.conn) == nil {
				return
			}
			w.kill()
			d.awaitEnd(w)
		})
	}
	told.Wait()
}

// tellMover has the mover use the memory that there is now, and end the copies of workers that are
// gone.
func (d *Device) tellMover() {
	// The messages come in the order of the tables, each before its files are closed.
	d.telling.Lock()
	defer d.telling.Unlock()
	d.mu.Lock()
	m := d.mover
	if m == nil {
		d.mu.Unlock()
		return
	}
	tell := d.memoryMessage()
	d.mu.Unlock()
	if !m.killed.Load() && tell(m.conn) == nil {
		return
	}
	d.endMover(m)
}
