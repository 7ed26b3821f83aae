// SPDX-License-Identifier: Apache-2.0

// Package domain reaches the QEMU of one of libvirt's domains: it passes QMP's commands through
// libvirt's daemon, which holds QEMU's only QMP socket, and takes QEMU's events from it.
//
// A Monitor owns its connection, and serves one task at a time. The daemon is trusted as far as its
// user is.
package domain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-qemu/qmp"
)

const connectTime = 15 * time.Second

// System and Session are the names of the host's daemon and of an ordinary user's.
const (
	System  = string(libvirt.QEMUSystem)
	Session = string(libvirt.QEMUSession)
)

// DefaultURI is the name that virsh takes by default, too.
func DefaultURI() string {
	if uri := os.Getenv("LIBVIRT_DEFAULT_URI"); uri != "" {
		return uri
	}
	if os.Geteuid() == 0 {
		return System
	}
	return Session
}

// Monitor is a connection to a domain's QEMU.
type Monitor struct {
	name string
	l    *libvirt.Libvirt
	conn net.Conn
}

// Dial gives the libvirt library the connection. The library asks once.
func (m *Monitor) Dial() (net.Conn, error) { return m.conn, nil }

// Connect connects to the daemon at uri, and checks that the domain runs.
func Connect(ctx context.Context, uri, name string) (*Monitor, error) {
	conn, err := dial(ctx, uri)
	if err != nil {
		return nil, fmt.Errorf("connect to libvirt: %w", err)
	}
	m := &Monitor{name: name, conn: conn}
	m.l = libvirt.NewWithDialer(m)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := m.l.ConnectToURI(libvirt.ConnectURI(uri)); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to libvirt: %w", refused(err))
	}
	if err := m.runs(); err != nil {
		conn.Close()
		return nil, err
	}
	return m, nil
}

// runs returns an error unless the domain runs.
func (m *Monitor) runs() error {
	d, err := m.l.DomainLookupByName(m.name)
	if libvirt.IsNotFound(err) {
		return fmt.Errorf("libvirt has no domain %q: virsh list --all names those that there are",
			m.name)
	}
	if err != nil {
		return fmt.Errorf("look for the domain %q: %w", m.name, refused(err))
	}
	if d.ID < 0 {
		return fmt.Errorf("the domain %q isn't running: virsh start %s", m.name, m.name)
	}
	return nil
}

// refused adds to an error what to do if the daemon refuses permission.
func refused(err error) error {
	var e libvirt.Error
	if errors.As(err, &e) {
		switch libvirt.ErrorNumber(e.Code) {
		case libvirt.ErrAuthFailed, libvirt.ErrAuthCancelled, libvirt.ErrAuthUnavailable,
			libvirt.ErrAccessDenied, libvirt.ErrOperationDenied:
			return fmt.Errorf("%w: %s", err, permit)
		}
	}
	return err
}

const permit = "run it as root, or as a member of the group libvirt"

// sockets are where a daemon listens: QEMU's own daemon, and the one for all of libvirt.
func sockets(uri string) ([]string, error) {
	dir := "/run/libvirt"
	switch uri {
	case System:
	case Session:
		user := os.Getenv("XDG_RUNTIME_DIR")
		if user == "" {
			user = fmt.Sprintf("/run/user/%d", os.Getuid())
		}
		dir = filepath.Join(user, "libvirt")
	default:
		return nil, fmt.Errorf("%s: want %s or %s: QEMU opens the device's socket, "+
			"which is on its own host", uri, System, Session)
	}
	return []string{filepath.Join(dir, "virtqemud-sock"), filepath.Join(dir, "libvirt-sock")}, nil
}

// dial connects to the first of a daemon's sockets that answers.
func dial(ctx context.Context, uri string) (net.Conn, error) {
	all, err := sockets(uri)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: connectTime}
	for _, path := range all {
		var c net.Conn
		if c, err = d.DialContext(ctx, "unix", path); err == nil {
			return c, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("%w: %s", err, permit)
		}
	}
	return nil, fmt.Errorf("%w: is libvirtd there? systemctl start libvirtd, "+
		"or --connect %s for domains of this user's", err, Session)
}

// Run executes a QMP command, and returns QEMU's answer.
func (m *Monitor) Run(command []byte) ([]byte, error) { return m.l.Run(m.name, command) }

// Disconnect ends the connection.
func (m *Monitor) Disconnect() error { return m.conn.Close() }

// Events returns QEMU's events, until the connection or the context ends.
func (m *Monitor) Events(ctx context.Context) (<-chan qmp.Event, error) {
	all, err := m.l.SubscribeQEMUEvents(ctx, m.name)
	if err != nil {
		return nil, err
	}
	out := make(chan qmp.Event)
	go func() {
		defer close(out)
		for e := range all {
			q := qmp.Event{Event: e.Event}
			if len(e.Details) > 0 && json.Unmarshal(e.Details, &q.Data) != nil {
				continue
			}
			out <- q
		}
	}()
	return out, nil
}
