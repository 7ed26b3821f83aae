// SPDX-License-Identifier: Apache-2.0

package vhostusertest

import (
	"io"

	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// Migrating is a Device that can be migrated. It fails the test when it gets a log that it can't
// use, or gets none when it should.
type Migrating struct {
	*Device
	state  []byte        // guarded by Device.mu
	log    *dirtylog.Log // guarded by Device.mu
	loaded []byte        // guarded by Device.mu
}

var (
	_ vhostuser.DirtyLogger = (*Migrating)(nil)
	_ vhostuser.StateSaver  = (*Migrating)(nil)
)

// SaveState implements vhostuser.StateSaver.
func (m *Migrating) SaveState(w io.Writer) error {
	if err := m.beginState("save"); err != nil {
		return err
	}
	m.mu.Lock()
	state := m.state
	m.mu.Unlock()
	_, err := w.Write(state)
	return err
}

// LoadState implements vhostuser.StateSaver.
func (m *Migrating) LoadState(r io.Reader) error {
	if err := m.beginState("load"); err != nil {
		return err
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded = b
	return nil
}

// SetState sets what is saved.
func (m *Migrating) SetState(b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = b
}

// Loaded is the state that was loaded last.
func (m *Migrating) Loaded() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loaded
}

func (m *Migrating) beginState(call string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.running) > 0 {
		m.tb.Errorf("%s state while a queue runs", call)
	}
	return m.note("%s state", call)
}

// SetLog implements vhostuser.DirtyLogger. It marks the first page, to see that this works.
func (m *Migrating) SetLog(log *dirtylog.Log) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.note("log %v", log != nil); err != nil {
		return err
	}
	if log != nil {
		log.Mark(0, 1)
	}
	m.log = log
	return nil
}

// Write pretends that the device writes to the guest's memory.
func (m *Migrating) Write(gpa, n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.log != nil {
		m.log.Mark(gpa, n)
	}
}

// Logs reports whether the device has a log.
func (m *Migrating) Logs() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log != nil
}
