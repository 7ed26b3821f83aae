// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/qemu"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/vm"
)

// watch is a program that says when the virtio device of id 37 (0x25) comes and goes: "none", or a
// number that no other device has had.
const watch = `
n=; echo up
while :; do
	m=$(grep -l 0x0025 /sys/bus/virtio/devices/*/device 2>/dev/null | xargs -r stat -Lc %i)
	[ "${m:=none}" = "$n" ] || echo $m
	n=$m
done`

// TestHotPlug attaches a device to a real VM, puts another one in its place, and takes it out.
func TestHotPlug(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it boots a VM")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	qmp, lines := watchingVM(t, ctx)
	expect(t, lines, "up", "none")
	last := "none"
	for _, name := range []string{"first", "second"} {
		d := qemu.Device{Socket: backEnd(t, ctx, name), Carrier: qemu.Generic, Queues: 2}
		if err := qemu.Attach(ctx, qemu.QMP(qmp), d, qemu.Options{}); err != nil {
			t.Fatal(err)
		}
		now := next(t, lines)
		if now == "none" && name == "second" { // it may be gone for too short a time to be seen
			now = next(t, lines)
		}
		if now == "none" || now == last {
			t.Fatalf("the VM has device %s, after %s", now, last)
		}
		last = now
	}
	if err := qemu.Detach(ctx, qemu.QMP(qmp), ""); err != nil {
		t.Fatal(err)
	}
	expect(t, lines, "none")
	if err := qemu.Detach(ctx, qemu.QMP(qmp), ""); err == nil {
		t.Error("a device that is not there was detached")
	}
}

// watchingVM boots a VM that runs watch, and returns its QMP socket and output.
func watchingVM(t *testing.T, ctx context.Context) (string, *bufio.Reader) {
	qmp := filepath.Join(t.TempDir(), "qmp")
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := vm.Run(ctx, vm.Config{Kind: vm.QEMU, Machine: vm.Machine{QMPSocket: qmp},
			Program: vm.Program{Name: "sh", Args: []string{"-c", watch}, Stdout: w}})
		w.CloseWithError(err)
	}()
	t.Cleanup(func() {
		cancel()
		r.Close()
		<-done
	})
	return qmp, bufio.NewReader(r)
}

func expect(t *testing.T, lines *bufio.Reader, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := next(t, lines); got != w {
			t.Fatalf("the VM said %q, not %q", got, w)
		}
	}
}

// next is what the VM says next.
func next(t *testing.T, lines *bufio.Reader) string {
	t.Helper()
	got, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("the VM said %q: %v", got, err)
	}
	return strings.TrimSpace(got)
}

// backEnd serves one front end on a socket.
func backEnd(t *testing.T, ctx context.Context, name string) string {
	socket := filepath.Join(t.TempDir(), name)
	l, err := vhostuser.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer l.Close()
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		s, err := vhostuser.New(conn, vhostusertest.NewDevice(t, 2), vhostuser.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		l.Close()
		<-done
	})
	return socket
}
