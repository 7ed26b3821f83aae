// SPDX-License-Identifier: Apache-2.0

package vhostusertest

import (
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// Migrating is a Device that can be migrated. It fails the test when it has a log that it couldn't
// use, or none when it should.
type Migrating struct {
	*Device
	log *dirtylog.Log // guarded by Device.mu
}

var _ vhostuser.DirtyLogger = (*Migrating)(nil)

// SetLog implements vhostuser.DirtyLogger. It marks the first page, so that it knows that it can.
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
