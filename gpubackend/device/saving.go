// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
)

var errStuck = errors.New("a worker that was killed does not end")

// newSaving makes what takes the VM's programs to a file, and back.
func (d *Device) newSaving() *saving.Saving {
	return saving.New(saving.Config{
		GPU: d.config.GPU, Build: d.config.Build, Suspension: d.suspension,
		Channels: int(d.settings.Told().Channels),
		Serving:  d.serving, Leave: d.leaveTo, Begin: d.beginSaved, Arrive: d.arrive, Run: d.run,
		Resumed: func(channel int) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.reclaim(d.channels[channel]) // if its worker is gone already
		},
	})
}

// serving are the workers that serve a program.
func (d *Device) serving() (list []saving.Served) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.channels {
		if w := c.worker; w != nil {
			p := w.Program()
			list = append(list,
				saving.Served{Channel: c.index, PID: p.PID, Name: p.Name, Worker: w})
		}
	}
	return list
}

// leaveTo has a worker leave its channel to a file, if it serves it still.
func (d *Device) leaveTo(s saving.Served, saved func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.channels[s.Channel].worker; w != nil && w == s.Worker {
		w.Retire()
		saved()
	}
}

// beginSaved starts the worker of a program in a file.
func (d *Device) beginSaved(
	p *saving.Program, from saving.Source, still func() bool,
) (saving.Worker, error) {
	c := d.channels[p.Channel]
	d.starts.Take()
	program := workers.Program{PID: p.PID, Name: p.Name}
	w, err := d.begin(c, &beginning{Program: program, saved: &from,
		may: func() error {
			if !still() || !c.queue.Runs() {
				return errNotRunning
			}
			return c.free()
		}})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// free says why a channel can have no worker now.
func (c *channel) free() error {
	switch {
	case c.worker != nil && c.worker.Stuck():
		return errStuck
	case c.worker != nil:
		return errBusy
	}
	return nil
}

// arrive starts the worker of a program that comes from another device process. It begins as one
// that has paused, and gets the guest's memory with its queue.
func (d *Device) arrive(p *saving.Program, from saving.Source) (saving.Worker, error) {
	c := d.channels[p.Channel]
	d.starts.Take()
	program := workers.Program{PID: p.PID, Name: p.Name}
	w, err := d.begin(c, &beginning{Program: program, saved: &from, arrives: true, may: c.free})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.worker == w {
		c.queue.PausedAt(w.Base())
		w.State(c.queue.Lend)
		c.paused = paused
	}
	return w, nil
}

// paused is of a worker that began so.
var paused = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
