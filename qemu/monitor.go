// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/digitalocean/go-qemu/qmp"

	"github.com/paracuda/paracuda/qemu/domain"
)

const connectTime = 5 * time.Second

// greetTime is how long QEMU may take to greet, which it does at once unless another program is
// connected. Tests shorten it.
var greetTime = 10 * time.Second

// ErrBusy says that QEMU serves another QMP connection: it serves one at a time.
var ErrBusy = errors.New("another program (libvirt?) holds this QMP socket: " +
	"give QEMU a second -qmp")

// connection carries commands and events. Each kind of Target has its own kind.
type connection interface {
	Run(command []byte) ([]byte, error)
	Events(context.Context) (<-chan qmp.Event, error)
	Disconnect() error
}

// fixes say how to give a VM what it lacks; PORT stands for a port.
type fixes struct{ shared, port string }

var (
	fixesOfQEMU = fixes{
		shared: "start QEMU with -object memory-backend-memfd,id=mem,size=SIZE,share=on " +
			"-machine memory-backend=mem",
		port: "the VM needs a free -device pcie-root-port,id=PORT",
	}
	fixesOfLibvirt = fixes{
		shared: "the domain needs <memoryBacking><source type='memfd'/>" +
			"<access mode='shared'/></memoryBacking>",
		port: "the domain needs one more <controller type='pci' model='pcie-root-port'/>",
	}
)

// monitor is a QMP connection that heeds a context. go-qemu's monitor blocks every command until
// its events are taken, reads no message of 64 KiB or more, and keeps a reply in a buffer that
// later messages may reuse: so events are taken by a goroutine, only commands with short replies
// are sent, and a connection serves one task at a time.
type monitor struct {
	ctx     context.Context
	qmp     connection
	version Version
	fixes   fixes
	deleted chan string // devices as QEMU deletes them: their ids, or paths
	stop    func() bool
}

// Target is a running QEMU.
type Target interface {
	// connect opens a connection to it. The caller closes the monitor.
	connect(ctx context.Context) (*monitor, error)
}

// QMP is the QEMU that has this socket for QMP.
type QMP string

// LibvirtDomain is the QEMU of a libvirt domain.
type LibvirtDomain struct {
	URI  string // of libvirt's daemon; "": the default one
	Name string
}

func (d LibvirtDomain) connect(ctx context.Context) (*monitor, error) {
	uri := d.URI
	if uri == "" {
		uri = domain.DefaultURI()
	}
	q, err := domain.Connect(ctx, uri, d.Name)
	if err != nil {
		return nil, err
	}
	m := newMonitor(ctx, q, fixesOfLibvirt)
	var v struct {
		QEMU struct{ Major, Minor, Micro int }
	}
	if err := m.run("query-version", nil, &v); err != nil {
		m.close()
		return nil, err
	}
	m.version = Version(v.QEMU)
	if err := m.listen(); err != nil {
		return nil, err
	}
	return m, nil
}

func (s QMP) connect(ctx context.Context) (*monitor, error) {
	socket := string(s)
	q, err := qmp.NewSocketMonitor("unix", socket, connectTime)
	if errors.Is(err, syscall.EAGAIN) { // others wait already
		return nil, fmt.Errorf("connect to QEMU: %w", ErrBusy)
	}
	if errors.Is(err, syscall.EACCES) {
		return nil, fmt.Errorf("connect to QEMU: %w: run this as root, or as QEMU's user", err)
	}
	if err != nil {
		return nil,
			fmt.Errorf("connect to QEMU: %w: start QEMU with -qmp unix:%s,server=on,wait=off",
				err, socket)
	}
	m := newMonitor(ctx, q, fixesOfQEMU)
	if err := greet(q); err != nil {
		m.stop()
		q.Disconnect()
		return nil, fmt.Errorf("connect to QEMU: %w", m.cause(err))
	}
	v := q.Version.QEMU
	m.version = Version{v.Major, v.Minor, v.Micro}
	if err := m.listen(); err != nil {
		return nil, err
	}
	return m, nil
}

func newMonitor(ctx context.Context, q connection, f fixes) *monitor {
	m := &monitor{ctx: ctx, qmp: q, fixes: f, deleted: make(chan string, 64)}
	m.stop = context.AfterFunc(ctx, func() { q.Disconnect() })
	return m
}

// listen takes QEMU's events from now on. It closes the monitor if it can't.
func (m *monitor) listen() error {
	events, err := m.qmp.Events(m.ctx)
	if err != nil {
		m.close()
		return fmt.Errorf("listen to QEMU's events: %w", m.cause(err))
	}
	go m.take(events)
	return nil
}

// greet waits for QEMU's greeting, and answers it.
func greet(q *qmp.SocketMonitor) error {
	late := time.AfterFunc(greetTime, func() { q.Disconnect() })
	err := q.Connect()
	if !late.Stop() {
		return ErrBusy
	}
	return err
}

func (m *monitor) close() {
	if m.stop() {
		m.qmp.Disconnect()
	}
}

// cause is the context's error once that has ended, as closing the connection causes other errors.
func (m *monitor) cause(err error) error {
	if m.ctx.Err() != nil {
		return m.ctx.Err()
	}
	return err
}

// take takes every event until the connection closes.
func (m *monitor) take(events <-chan qmp.Event) {
	defer close(m.deleted)
	for e := range events {
		if e.Event != "DEVICE_DELETED" {
			continue
		}
		id, _ := e.Data["device"].(string)
		if id == "" { // it has none, or is a part of one
			id, _ = e.Data["path"].(string)
		}
		select {
		case m.deleted <- id:
		default: // nobody waits for so many
		}
	}
}

// arguments are those of a QMP command.
type arguments map[string]any

// run executes a command and puts what it returns in result, if not nil.
func (m *monitor) run(command string, args arguments, result any) error {
	text, err := json.Marshal(struct {
		Execute   string    `json:"execute"`
		Arguments arguments `json:"arguments,omitempty"`
	}{command, args})
	if err != nil {
		return fmt.Errorf("QEMU's %s: %w", command, err)
	}
	reply, err := m.qmp.Run(text)
	if err == nil {
		err = returned(reply, result)
	}
	if err != nil {
		return fmt.Errorf("QEMU's %s: %w", command, plainError{m.cause(err)})
	}
	return nil
}

// errNoReturn says that a reply is neither an error with a text nor a result.
var errNoReturn = errors.New("it returns nothing")

// returned puts what a reply returns in result, if not nil.
func returned(reply []byte, result any) error {
	var r struct{ Return json.RawMessage }
	if err := json.Unmarshal(reply, &r); err != nil {
		return err
	}
	if r.Return == nil {
		return errNoReturn
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(r.Return, result)
}

// hasDevice tells whether QEMU has a device of that id.
func (m *monitor) hasDevice(id string) (bool, error) {
	var children []struct{ Name string }
	err := m.run("qom-list", arguments{"path": "/machine/peripheral"}, &children)
	for _, c := range children {
		if c.Name == id {
			return true, err
		}
	}
	return false, err
}

// hasChardev tells whether QEMU has a chardev of that id.
func (m *monitor) hasChardev(id string) (bool, error) {
	var chardevs []struct{ Label string }
	err := m.run("query-chardev", nil, &chardevs)
	for _, c := range chardevs {
		if c.Label == id {
			return true, err
		}
	}
	return false, err
}

// sharesMemory tells whether back ends can map the guest's RAM.
func (m *monitor) sharesMemory() (bool, error) {
	var backends []struct{ Share bool }
	err := m.run("query-memdev", nil, &backends)
	for _, b := range backends {
		if !b.Share {
			return false, err
		}
	}
	return len(backends) > 0, err
}
