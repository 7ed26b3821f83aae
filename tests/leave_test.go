// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/vm"
)

// TestDriverLeavesInOrder ends a VM. Before the guest's driver takes the control queue away, it
// must have got back all that it put there. In User Mode Linux a reset doesn't stop the device,
// which would otherwise see the index of available chains go back.
func TestDriverLeavesInOrder(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, front frontEnd) {
		assets := vm.FindAssets()
		driver, err := assets.Driver(vm.Kind(front.name), "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := withPatience(t.Context(), front.boot+front.limit)
		defer cancel()
		left := &leaver{Device: device.New(device.Config{GPU: "soft",
			Settings: settings.Default(), Spawn: noProcesses{}, Log: quietLog()})}
		socket, served := serveOnce(t, ctx, left)
		config := vm.Config{Kind: vm.Kind(front.name), Assets: assets,
			Device:  vm.Device{Socket: socket, Queues: 17},
			Driver:  vm.GuestDriver{Modules: []vm.Module{driver}, File: "/dev/paracuda"},
			Program: vm.Program{Name: "true", Dir: root}}
		if front.isQEMU() {
			config.Device.VirtioID = wire.VirtioIdStock // the same device as in User Mode Linux
		}
		r, err := vm.Run(ctx, config)
		if err != nil || r.ExitCode != 0 {
			t.Fatalf("exit code %d, %v", r.ExitCode, err)
		}
		<-served
		left.check(t)
	})
}

// leaver is a device that notes the control queue's indices whenever that is stopped.
type leaver struct {
	*device.Device
	mem   *guestmem.Memory
	avail uint64
	stood []standing
}

// standing has the indices of available chains: the driver's, and how many the device has taken.
type standing struct{ driver, device uint16 }

func (l *leaver) SetMemory(m *vhostuser.Memory) (err error) {
	if l.mem != nil {
		err = l.mem.Close()
	}
	if err == nil {
		l.mem, err = m.Map()
	}
	return errors.Join(err, l.Device.SetMemory(m))
}

func (l *leaver) StartQueue(index int, q vhostuser.QueueConfig) error {
	if index == wire.ControlQueue {
		l.avail = q.Avail
	}
	return l.Device.StartQueue(index, q)
}

func (l *leaver) StopQueue(index int) (uint16, error) {
	if index != wire.ControlQueue {
		return l.Device.StopQueue(index)
	}
	var raw [4]byte
	err := l.mem.Read(raw[:], l.avail)
	base, stop := l.Device.StopQueue(index)
	l.stood = append(l.stood, standing{binary.LittleEndian.Uint16(raw[2:]), base})
	return base, errors.Join(err, stop)
}

// check wants a control queue that was stopped twice: after HELLO, which told the driver of the
// other queues, and at the end.
func (l *leaver) check(t *testing.T) {
	t.Helper()
	if len(l.stood) != 2 || l.stood[0] != (standing{1, 1}) {
		t.Fatalf("the control queue was stopped at %+v, want twice, at first with {1, 1} (HELLO)",
			l.stood)
	}
	if end := l.stood[1]; end.driver != end.device || end.device < 2 {
		t.Errorf("at the end the driver's index is %d, the device's %d, want the same above 1",
			end.driver, end.device)
	}
}

// noProcesses starts no processes: no program uses the GPU.
type noProcesses struct{}

func (noProcesses) Worker(*os.File) (device.Process, error) { return nil, errors.ErrUnsupported }
func (noProcesses) Mover(*os.File) (device.Process, error)  { return nil, errors.ErrUnsupported }

func quietLog() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

// serveOnce serves one front end with a device. It returns the socket, and a channel that is closed
// when that front end is gone.
func serveOnce(t *testing.T, ctx context.Context, d vhostuser.Device) (string, <-chan struct{}) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "device")
	listener, err := vhostuser.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		if s, err := vhostuser.New(conn, d, vhostuser.Options{Log: quietLog()}); err == nil {
			_ = s.Run(ctx)
		}
	}()
	t.Cleanup(func() { cancel(); listener.Close(); <-done })
	return socket, done
}
