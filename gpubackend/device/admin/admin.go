// SPDX-License-Identifier: Apache-2.0

// Package admin has both ends of a device process's control socket, through which the owner of a VM
// sets and asks. A request is a line of JSON, as are its answers.
//
// # Who may lie
//
// Who may connect is the owner, or has as much power (package socket). What comes is bounded all
// the same, and read once.
package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/holdings"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// Request is what `paracuda set` and others send to a device process, as one line of JSON.
type Request struct {
	Set     string `json:"set,omitempty"`     // a setting, "KEY=VALUE"
	Stats   bool   `json:"stats,omitempty"`   // ask for counters
	Movable bool   `json:"movable,omitempty"` // with Stats: ask the programs' workers, too
	Suspend bool   `json:"suspend,omitempty"` // move device memory out
	Resume  bool   `json:"resume,omitempty"`  // and in again
	File    bool   `json:"file,omitempty"`    // to the file that comes along, or from it
	Kept    bool   `json:"kept,omitempty"`    // the file that was written has its name
	// with Suspend and File: write device memory while the programs run, and stop them then
	Early bool `json:"early,omitempty"`
	// with Suspend: end programs whose work goes on
	Kill bool `json:"kill,omitempty"`
	// with Suspend and File: the device will be away, and programs wait so long for it
	Away time.Duration `json:"away,omitempty"`
	// the VM that was suspended to the file passed with this may be back soon
	Expect bool `json:"expect,omitempty"`
	// the connection passed with this leads to where the VM is going to be migrated, or from there
	Precopy Direction `json:"precopy,omitempty"`
	Replace bool      `json:"replace,omitempty"` // have another device process go on
	Version bool      `json:"version,omitempty"` // ask which one this is
}

// Answer is one line of JSON. While a request takes long, others come before it that have only
// Progress.
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
	Grown    bool              `json:"grown,omitempty"`    // the error is record.ErrGrown
	Progress *suspend.Progress `json:"progress,omitempty"` // of one that goes on
	Trouble  []Trouble         `json:"trouble,omitempty"`  // of the VM's with its device
	Version  string            `json:"version,omitempty"`  // of the device process
	PID      int               `json:"pid,omitempty"`      // its number
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

// Trouble is what keeps the guest's driver from the device, and what fixes that.
type Trouble struct {
	Found string `json:"found"`
	Fix   string `json:"fix"`
}

// Movable is whether a VM can be saved or migrated now, as far as its GPU is concerned.
type Movable struct {
	Now bool   `json:"now"`
	Why string `json:"why,omitempty"` // not
}

// adminTimeout bounds what one connection may take.
const adminTimeout = 10 * time.Second

// adminPause is how long no connection is accepted after accepting one has failed.
const adminPause = time.Second

// maxRequest bounds a request's line.
const maxRequest = 4096

// VM is what its owner can ask of a VM. All functions are called without a lock held; those that
// move memory may take long, and report progress now and then.
type VM struct {
	Set   func(text string) error
	Holds func(text string) string // since when a setting holds that was changed
	Stats func() Answer
	// Movable says why programs couldn't be saved, as far as Stats doesn't know; it takes a while.
	Movable func() error
	// Trouble is what Stats doesn't know; nil: nobody looks for it.
	Trouble func() []Trouble
	// MayChange says why nobody may suspend or resume it now.
	MayChange func() error
	// SuspendKilling ends programs whose work goes on; Suspend isn't possible then.
	Suspend, SuspendKilling, Resume func(tell func(suspend.Progress)) (suspend.Moved, error)
	// SuspendTo writes a file, and calls keep before anything is changed. Unless awaited is nil it
	// writes what it can while the programs run. It calls awaited after each tell, and stops if
	// that says why nobody waits any more.
	SuspendTo func(f io.Writer, kill bool, awaited, keep func() error,
		tell func(suspend.Progress)) (suspend.Moved, error)
	ResumeFrom func(f io.ReaderAt, tell func(suspend.Progress)) (suspend.Moved, error)
	// MayGo prepares the driver for the device to be away, for so long, after SuspendTo. Expect
	// takes the file by which a VM that was away will be recognised. It is closed when Expect
	// returns.
	MayGo  func(patience time.Duration) error
	Expect func(f *os.File) error
	// PrecopyTo sends device memory ahead over a connection, and PrecopyFrom takes what comes.
	PrecopyTo, PrecopyFrom func(c *net.UnixConn, tell func(suspend.Progress)) (uint64, error)
	// Version is that of the device process. Replace makes another one take its place, after which
	// this one is killed; nil: that isn't possible.
	Version string
	Replace func() error
	// Guard runs a part of this package, and survives its faults.
	Guard func(part string, f func()) bool
	Log   *logrus.Entry
}

// Serve answers the owner of the VM on a control socket until it is closed.
func (v *VM) Serve(l net.Listener) {
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptors left, for example, which passes
			v.Log.WithError(err).Warn("can't accept a connection to the control socket")
			time.Sleep(adminPause)
		default:
			go v.Guard("the control socket", func() { v.answer(c) })
		}
	}
}

func (v *VM) answer(c net.Conn) {
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
		if err := v.Set(r.Set); err != nil {
			a.Error = err.Error()
		} else {
			a.Holds = v.Holds(r.Set)
		}
	case r.Stats:
		a = v.stats(r.Movable)
		if v.Trouble != nil {
			a.Trouble = v.Trouble()
		}
	case r.Version:
		a.Version, a.PID = v.Version, os.Getpid()
	case r.Replace && v.Replace == nil:
		a.Error = "this device has no keeper, which would start another process: " +
			"shut the VM down, and start the device anew"
	case r.Replace:
		if err := v.Replace(); err != nil { // the answer may not come
			a.Error = err.Error()
		}
	case r.Expect:
		if file == nil {
			a.Error = errNoFile.Error()
		} else if err := v.expect(file, c); err != nil {
			a.Error = err.Error()
		}
		renew()
	case r.Precopy != "":
		a = v.precopy(r.Precopy, file, c)
		renew()
	case r.Suspend || r.Resume:
		var lost error
		tell := func(p suspend.Progress) {
			renew()
			lost = json.NewEncoder(c).Encode(&Answer{Progress: &p})
		}
		a = v.suspendOrResume(r, tell, file, func() (suspend.Moved, error) {
			return v.withFile(r, file, rest, c, tell, func() error { return lost })
		})
		renew()
	}
	_ = json.NewEncoder(c).Encode(&a)
}

// stats answers a request for counters. If that is wanted, the programs' workers are asked, too,
// whether they could be saved.
func (v *VM) stats(movable bool) Answer {
	a := v.Stats()
	if movable && a.Movable != nil && a.Movable.Now {
		if err := v.Movable(); err != nil {
			a.Movable = &Movable{Why: err.Error()}
		}
	}
	return a
}

// suspendOrResume answers a request to do that, by withFile if it is about a file.
func (v *VM) suspendOrResume(
	r Request, tell func(suspend.Progress), file *os.File,
	withFile func() (suspend.Moved, error),
) (a Answer) {
	if err := v.MayChange(); err != nil {
		return Answer{Error: err.Error()}
	}
	var m suspend.Moved
	var err error
	switch {
	case r.File && file == nil:
		err = errNoFile
	case r.File:
		m, err = withFile()
	case r.Resume:
		m, err = v.Resume(tell)
	case r.Kill:
		m, err = v.SuspendKilling(tell)
	default:
		m, err = v.Suspend(tell)
	}
	if err != nil {
		a.Error, a.Grown = err.Error(), errors.Is(err, record.ErrGrown)
		return a
	}
	a.Moved = &m
	return a
}

// Ask sends a request to the device process behind a control socket.
func Ask(socket string, r Request) (*Answer, error) {
	return AskAtLength(socket, r, func(suspend.Progress) {})
}

// AskAtLength is Ask for requests that may take long; tell is told their progress.
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
	switch {
	case err == nil:
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("no permission for the device's socket %s: run this as root, or as "+
			"a member of the socket's group: %w", socket, err)
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("the device process of %s has ended: start it again, and its VM: %w",
			socket, err)
	default:
		return nil,
			fmt.Errorf("no device answers at %s: give the socket of paracuda device --control: %w",
				socket, err)
	}
	_ = c.SetDeadline(time.Now().Add(adminTimeout))
	return c, nil
}

// refusal is an answer that says why not.
type refusal string

func (r refusal) Error() string { return string(r) }

// lastAnswer reads answers up to the last one.
func lastAnswer(
	socket string, c net.Conn, tell func(suspend.Progress), keep func() error,
) (*Answer, error) {
	for lines := json.NewDecoder(c); ; {
		var a Answer
		switch err := lines.Decode(&a); {
		case err != nil:
			return nil, fmt.Errorf("answer of %s: %w", socket, err)
		case a.Grown:
			return nil, fmt.Errorf("%w: %s", record.ErrGrown, a.Error)
		case a.Error != "":
			return nil, refusal(a.Error)
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
