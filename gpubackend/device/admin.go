// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/holdings"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// Request is what `paracuda set` and others send to a device process, as one line of JSON.
type Request struct {
	Set     string `json:"set,omitempty"`     // a setting, "KEY=VALUE"
	Stats   bool   `json:"stats,omitempty"`   // ask for counters
	Suspend bool   `json:"suspend,omitempty"` // move device memory out
	Resume  bool   `json:"resume,omitempty"`  // and in again
	File    bool   `json:"file,omitempty"`    // to the file that comes along, or from it
	Kept    bool   `json:"kept,omitempty"`    // the file that was written has its name
}

// Answer is one line of JSON back. Before it come others while a request goes on that takes long:
// they have nothing but Progress.
type Answer struct {
	Error    string            `json:"error,omitempty"`
	Holds    string            `json:"holds,omitempty"`    // since when what was set holds
	GPU      string            `json:"gpu,omitempty"`      // "soft" or "cuda"
	Policies map[string]string `json:"policies,omitempty"` // by their keys
	Stats    map[string]uint64 `json:"stats,omitempty"`    // of the VM since it started
	Memory   []holdings.GPU    `json:"memory,omitempty"`   // of each GPU that the VM uses
	Programs []Program         `json:"programs,omitempty"` // that run now
	Turns    *link.VM          `json:"turns,omitempty"`    // by the arbiter, if there is one
	State    *suspend.Status   `json:"state,omitempty"`    // whether the VM is suspended
	Movable  *Movable          `json:"movable,omitempty"`  // whether it can be saved or migrated
	Moved    *suspend.Moved    `json:"moved,omitempty"`    // to a request to suspend or resume
	Written  bool              `json:"written,omitempty"`  // the file is: keep it
	Progress *suspend.Progress `json:"progress,omitempty"` // of one that goes on
}

// Program is a guest process that has a channel.
type Program struct {
	Channel int               `json:"channel"`
	PID     int32             `json:"pid"`
	Name    string            `json:"name"`
	Stats   map[string]uint64 `json:"stats"`
	Memory  map[string]uint64 `json:"memory,omitempty"` // of all GPUs together, by kind
	Fixed   map[string]uint64 `json:"fixed,omitempty"`  // what can't be made anew elsewhere
}

// Movable is whether a VM can be saved or migrated now, as far as its GPU is concerned.
type Movable struct {
	Now bool   `json:"now"`
	Why string `json:"why,omitempty"` // not
}

// adminTimeout bounds what one connection may take.
const adminTimeout = 10 * time.Second

// adminPause is how long no connection is taken after one could not be.
const adminPause = time.Second

// maxRequest bounds a request's line.
const maxRequest = 4096

// ServeAdmin answers the owner of the VM on a control socket until it is closed.
func (d *Device) ServeAdmin(l net.Listener) {
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptors left, say, which passes
			d.log.WithError(err).Warn("take a connection to the control socket")
			time.Sleep(adminPause)
		default:
			go d.guard("the control socket", func() { d.admin(c) })
		}
	}
}

func (d *Device) admin(c net.Conn) {
	defer c.Close()
	renew := func() { _ = c.SetDeadline(time.Now().Add(adminTimeout)) }
	renew()
	line, file, rest, err := readRequest(c)
	if file != nil {
		defer file.Close()
	}
	if err != nil {
		return
	}
	var r Request
	a := Answer{}
	switch err := json.Unmarshal(line, &r); {
	case err != nil:
		a.Error = "not a request: " + err.Error()
	case r.Set != "":
		if err := d.Set(r.Set); err != nil {
			a.Error = err.Error()
		} else {
			a.Holds = d.shares.holds(r.Set)
		}
	case r.Stats:
		a.GPU, a.Policies = d.config.GPU, d.policies()
		a.Stats, a.Turns = d.Counters().Map(), d.shares.turns()
		a.Memory, a.Programs = d.programs()
		a.Movable = d.movable()
		state := d.suspension.Status()
		a.State = &state
	case r.Suspend || r.Resume:
		tell := func(p suspend.Progress) {
			renew()
			_ = json.NewEncoder(c).Encode(&Answer{Progress: &p})
		}
		a = d.suspendOrResume(r, tell, file, func() (suspend.Moved, error) {
			return d.withFile(r, file, rest, c, tell)
		})
		renew()
	}
	_ = json.NewEncoder(c).Encode(&a)
}

// suspendOrResume is the answer to a request to do it, by withFile if it is about a file.
func (d *Device) suspendOrResume(
	r Request, tell func(suspend.Progress), file *os.File,
	withFile func() (suspend.Moved, error),
) (a Answer) {
	if err := d.place.MayChange(); err != nil {
		return Answer{Error: err.Error()}
	}
	var m suspend.Moved
	var err error
	switch {
	case r.File && file == nil:
		err = errors.New("there is no file")
	case r.File:
		m, err = withFile()
	case r.Resume:
		m, err = d.suspension.Resume(tell)
	default:
		m, err = d.suspension.Suspend(tell)
	}
	if err != nil {
		a.Error = err.Error()
		return a
	}
	a.Moved = &m
	return a
}

// Set changes a setting of the running VM. What only holds from the start can't be changed.
func (d *Device) Set(text string) error {
	if err := d.shares.Set(text); err != nil {
		return err
	}
	d.config.Remains.Changed(text)
	return nil
}

// Bound makes settings hold that the arbiter's operator has set.
func (d *Device) Bound(bounds map[string]string) error { return d.shares.Bound(bounds) }

// current are the settings that hold.
func (d *Device) current() Settings {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settings
}

// set changes a setting, whatever an arbiter says of it.
func (d *Device) set(text string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.settings
	if err := s.Set(text); err != nil {
		return err
	}
	if err := suits(d.config.GPU, text); err != nil {
		return err
	}
	if err := s.Check(d.config.GPU); err != nil {
		return fmt.Errorf("%w %s: %w", ErrSetting, text, err)
	}
	space, policy := s.Build()
	if space.Channels != d.space.Channels || space.ArenaBytes != d.space.ArenaBytes {
		return fmt.Errorf("%w %s: it holds from the VM's start: give it to paracuda device",
			ErrSetting, text)
	}
	space.Sequence = d.space.Sequence + 1
	if policy != d.policy {
		d.warm.Keep(0) // they were started with the old one
	}
	d.settings, d.space, d.policy = s, space, policy
	d.accounts.SetBound(s.memoryBound(d.config.GPU))
	d.idle.SetTime(s.IdleTime)
	d.starts.SetRate(float64(s.Starts))
	d.tell()
	d.refill()
	d.idle.Rested(d.used())
	for _, c := range d.channels {
		if c.worker != nil {
			c.worker.tell(&handover.Message{Kind: handover.KindPolicy, Policy: &policy}, nil)
		}
	}
	return nil
}

// policies are the settings that hold.
func (d *Device) policies() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.settings.values()
	all["warm-workers"] = fmt.Sprint(d.settings.warmTarget(d.config.GPU, len(d.channels)))
	return all
}

// programs are the guest processes, and what the VM has of device memory.
func (d *Device) programs() (memory []holdings.GPU, list []Program) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.channels {
		if w := c.worker; w != nil {
			stats := w.state.Counters().Map()
			list = append(list, Program{c.index, w.pid, w.comm, stats, d.accounts.Of(w),
				w.state.Fixed().Map()})
		}
	}
	return d.accounts.GPUs(), list
}

// Ask sends a request to the device process behind a control socket.
func Ask(socket string, r Request) (*Answer, error) {
	return AskAtLength(socket, r, func(suspend.Progress) {})
}

// AskAtLength is Ask for requests that may take long, with what tells how far they are.
func AskAtLength(socket string, r Request, tell func(suspend.Progress)) (*Answer, error) {
	c, err := dialAdmin(socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(&r); err != nil {
		return nil, err
	}
	return lastAnswer(socket, c, tell, func() error { return errors.New("an unexpected answer") })
}

// dialAdmin connects to a device process.
func dialAdmin(socket string) (net.Conn, error) {
	c, err := net.DialTimeout("unix", socket, adminTimeout)
	if err != nil {
		return nil,
			fmt.Errorf("no device answers at %s: give the socket of paracuda device --control: %w",
				socket, err)
	}
	_ = c.SetDeadline(time.Now().Add(adminTimeout))
	return c, nil
}

// lastAnswer reads answers up to the last one.
func lastAnswer(
	socket string, c net.Conn, tell func(suspend.Progress), keep func() error,
) (*Answer, error) {
	for lines := json.NewDecoder(c); ; {
		var a Answer
		switch err := lines.Decode(&a); {
		case err != nil:
			return nil, fmt.Errorf("answer of %s: %w", socket, err)
		case a.Error != "":
			return nil, errors.New(a.Error)
		case a.Written:
			if err := keep(); err != nil {
				return nil, err
			}
		case a.Progress == nil:
			return &a, nil
		default:
			tell(*a.Progress)
		}
		_ = c.SetDeadline(time.Now().Add(adminTimeout))
	}
}
