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
)

const connectTime = 5 * time.Second

// greetTime is how long QEMU may take to greet, which it does at once unless
// somebody else is connected. Tests shorten it.
var greetTime = 10 * time.Second

// ErrBusy says that QEMU serves another QMP connection, and so not this one.
var ErrBusy = errors.New("another program (libvirt?) holds this QMP socket: " +
	"give QEMU a second -qmp")

// monitor is a QMP connection that heeds a context. go-qemu's own blocks every
// command while an event is not taken, reads no message of 64 KiB or more, and
// keeps a reply in a buffer that later messages may reuse: so events are taken
// by a goroutine, only commands with short replies are sent, and a connection
// serves one task.
type monitor struct {
	ctx     context.Context
	qmp     *qmp.SocketMonitor
	version Version
	deleted chan string // devices as QEMU deletes them: their ids, or paths
	stop    func() bool
}

// connect opens a QMP socket. The caller closes the monitor.
func connect(ctx context.Context, socket string) (*monitor, error) {
	q, err := qmp.NewSocketMonitor("unix", socket, connectTime)
	if errors.Is(err, syscall.EAGAIN) { // others wait already
		return nil, fmt.Errorf("connect to QEMU: %w", ErrBusy)
	}
	if err != nil {
		return nil,
			fmt.Errorf("connect to QEMU: %w: start QEMU with -qmp unix:%s,server=on,wait=off",
				err, socket)
	}
	m := &monitor{ctx: ctx, qmp: q, deleted: make(chan string, 64)}
	m.stop = context.AfterFunc(ctx, func() { q.Disconnect() })
	if err := greet(q); err != nil {
		m.stop()
		q.Disconnect()
		return nil, fmt.Errorf("connect to QEMU: %w", m.cause(err))
	}
	v := q.Version.QEMU
	m.version = Version{v.Major, v.Minor, v.Micro}
	events, err := q.Events(ctx)
	if err != nil {
		m.close()
		return nil, fmt.Errorf("listen to QEMU's events: %w", err)
	}
	go m.take(events)
	return m, nil
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

// cause is the context's error rather than what closing the connection made of it.
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
		default: // nobody waits for that many
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
	if err != nil {
		return fmt.Errorf("QEMU's %s: %w", command, m.cause(err))
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(reply, &struct{ Return any }{result}); err != nil {
		return fmt.Errorf("QEMU's %s: %w", command, err)
	}
	return nil
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
