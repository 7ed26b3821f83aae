// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// answer is one of SET_DEVICE_STATE_FD and CHECK_DEVICE_STATE, ^0 if there is none of one word.
func answer(tb testing.TB, f *Frontend, r vhostuser.Request) uint64 {
	tb.Helper()
	b, err := f.Reply(r)
	if err != nil {
		tb.Fatal(err)
	}
	if len(b) != 8 {
		return ^uint64(0)
	}
	return binary.NativeEndian.Uint64(b)
}

func (m *migrating) transfer(direction, phase uint32, fds ...int) uint64 {
	msg := &vhostuser.Message{
		Request: vhostuser.SetDeviceStateFD, Flags: vhostuser.FlagVersion,
		Payload: State(direction, phase),
	}
	if err := m.Write(msg, fds...); err != nil {
		return ^uint64(0)
	}
	return answer(m.dev.TB(), m.Frontend, vhostuser.SetDeviceStateFD)
}

func (m *migrating) check() uint64 {
	msg := &vhostuser.Message{Request: vhostuser.CheckDeviceState, Flags: vhostuser.FlagVersion}
	if err := m.Write(msg); err != nil {
		return ^uint64(0)
	}
	return answer(m.dev.TB(), m.Frontend, vhostuser.CheckDeviceState)
}

// begun is the answer to a transfer that has begun: no descriptor, no error.
const begun = NoFD

func pipe(tb testing.TB) (r, w *os.File) {
	tb.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// save begins a save and returns where the state comes from.
func (m *migrating) save(tb testing.TB) *os.File {
	tb.Helper()
	r, w := pipe(tb)
	if got := m.transfer(vhostuser.StateSave, 0, int(w.Fd())); got != begun {
		tb.Fatalf("save: %#x", got)
	}
	_ = w.Close()
	return r
}

// TestStateIsTakenAlong: more than a pipe holds, from one device to another.
func TestStateIsTakenAlong(t *testing.T) {
	t.Parallel()
	m, other := newMigrating(t, 1), newMigrating(t, 1)
	state := []byte(strings.Repeat("state", 100000))
	m.dev.SetState(state)
	m.Stop(m.queues...)
	r := m.save(t)
	saved, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(saved, state) {
		t.Fatalf("saved %d bytes, %v", len(saved), err)
	}
	if got := m.check(); got != 0 {
		t.Errorf("check of a save: %#x", got)
	}
	other.Stop(other.queues...)
	r, w := pipe(t)
	if got := other.transfer(vhostuser.StateLoad, 0, int(r.Fd())); got != begun {
		t.Fatalf("load: %#x", got)
	}
	if _, err := w.Write(saved); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if got := other.check(); got != 0 || !bytes.Equal(other.dev.Loaded(), saved) {
		t.Errorf("check of a load: %#x, loaded %d bytes", got, len(other.dev.Loaded()))
	}
	other.Start(other.queues...)
	other.sync()
}

func TestTransfersAreChecked(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 1)
	_, w := pipe(t)
	fd := int(w.Fd())
	if got := m.check(); got != 1 {
		t.Errorf("check of nothing: %#x", got)
	}
	if got := m.transfer(vhostuser.StateSave, 0, fd); got != NoFD|1 {
		t.Errorf("save while a queue runs: %#x", got)
	}
	m.Stop(m.queues...)
	for _, tt := range []struct {
		name             string
		direction, phase uint32
		fds              []int
	}{
		{"direction", 2, 0, []int{fd}},
		{"phase", 0, 1, []int{fd}},
		{"no descriptor", 0, 0, nil},
		{"two", 0, 0, []int{fd, fd}},
		{"all ones", ^uint32(0), ^uint32(0), []int{fd}},
	} {
		if got := m.transfer(tt.direction, tt.phase, tt.fds...); got != NoFD|1 {
			t.Errorf("%s: %#x", tt.name, got)
		}
	}
	m.rig.dev.Calls()
	m.rig.dev.SetFail(func(string) error { return errors.New("a program runs") })
	if b, err := io.ReadAll(m.save(t)); err != nil || len(b) != 0 {
		t.Errorf("a device that can't be saved: % x, %v", b, err)
	}
	if got := m.check(); got != 1 {
		t.Errorf("check of a save that failed: %#x", got)
	}
	// At the end it is asked to let go of the memory, and keeps it mapped if it fails.
	m.rig.dev.SetFail(nil)
}

// TestOtherMessagesEndATransfer: the device is used by one at a time, and by nobody when Run ends.
func TestOtherMessagesEndATransfer(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 1)
	m.dev.SetState(make([]byte, mib))
	m.Stop(m.queues...)
	m.save(t)
	m.MustSend(vhostuser.ResetDevice, nil)
	if got := m.check(); got != 1 {
		t.Errorf("check of a save that was ended: %#x", got)
	}
	m.save(t) // and hang up
}

// TestStateThatDoesntMove: a front end that neither reads nor goes on.
func TestStateThatDoesntMove(t *testing.T) {
	t.Parallel()
	dev := &Migrating{Device: NewDevice(t, 1)}
	dev.SetState(make([]byte, mib))
	r := newRigWith(t, dev, dev.Device, vhostuser.Options{Timeout: time.Second})
	r.MustSend(vhostuser.SetProtocolFeatures, Word(allProtocol))
	m := &migrating{rig: r, dev: dev}
	m.save(t)
	if got := m.check(); got != 1 {
		t.Errorf("check: %#x", got)
	}
}

// TestNoSaveWithoutALog: a VM that was copied by a log with holes must not be taken for whole.
func TestNoSaveWithoutALog(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 1)
	if err := m.logBase(vt.MemFD(t, 4096), bits-1, 0); err == nil {
		t.Fatal("a log that is too small")
	}
	m.MustSend(vhostuser.SetFeatures, Word(m.features|logAll))
	m.Stop(m.queues...)
	_, w := pipe(t)
	if got := m.transfer(vhostuser.StateSave, 0, int(w.Fd())); got != NoFD|1 {
		t.Errorf("save: %#x", got)
	}
	m.MustSend(vhostuser.SetFeatures, Word(m.features))
	if b, err := io.ReadAll(m.save(t)); err != nil || len(b) != 0 {
		t.Errorf("a VM that stands still: % x, %v", b, err)
	}
}

// TestNoStateWithoutASaver: a device that can't isn't asked to.
func TestNoStateWithoutASaver(t *testing.T) {
	t.Parallel()
	r, _, _ := started(t, 1)
	if r.MustQuery(vhostuser.GetProtocolFeatures)&vhostuser.ProtocolDeviceState != 0 {
		t.Error("DEVICE_STATE is offered")
	}
	msg := &vhostuser.Message{Request: vhostuser.CheckDeviceState, Flags: vhostuser.FlagVersion}
	if err := r.Write(msg); err != nil {
		t.Fatal(err)
	}
	if got := answer(t, r.Frontend, vhostuser.CheckDeviceState); got != 1 {
		t.Errorf("check: %#x", got)
	}
}

// TestRefusedStateIsTold: the log says why a state was refused, once, also where the front end
// doesn't ask how it went.
func TestRefusedStateIsTold(t *testing.T) {
	t.Parallel()
	for name, asks := range map[string]bool{"asks": true, "goes on": false} {
		var log logBuffer
		dev := &Migrating{Device: NewDevice(t, 1)}
		r := newRigWith(t, dev, dev.Device, vhostuser.Options{Log: newLogger(&log)})
		r.MustSend(vhostuser.SetProtocolFeatures, Word(allProtocol))
		m := &migrating{rig: r, dev: dev}
		r.dev.SetFail(func(string) error { return errors.New("it is another one's") })
		from, to := pipe(t)
		if got := m.transfer(vhostuser.StateLoad, 0, int(from.Fd())); got != begun {
			t.Fatalf("load: %#x", got)
		}
		_ = to.Close()
		if asks {
			m.check()
		}
		m.MustQuery(vhostuser.GetFeatures)
		m.MustQuery(vhostuser.GetFeatures)
		r.dev.SetFail(nil)
		if n := strings.Count(log.String(), "it is another one's"); n != 1 {
			t.Errorf("%s: it is told %d times", name, n)
		}
	}
}
