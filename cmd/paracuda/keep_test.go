// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/wire/wiretest"
	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// keptVM is a front end with its guest's driver, before a device with a keeper.
type keptVM struct {
	t       *testing.T
	keeper  *exec.Cmd
	starter int // number of the process that starts the others
	socket  string
	control string
	log     *lines
	ended   chan error
	front   *vhostusertest.Frontend
	guest   *virtqueuetest.Guest
	queues  []*vhostusertest.Queue
	request uint64
}

// newKeptVM starts the device, and a driver that has greeted it.
func newKeptVM(t *testing.T, options ...string) *keptVM {
	t.Helper()
	return newKeptVMOf(t, os.Args[0], options...)
}

// newKeptVMOf does so with the program that lies there.
func newKeptVMOf(t *testing.T, program string, options ...string) *keptVM {
	t.Helper()
	dir := t.TempDir()
	v := &keptVM{t: t, socket: filepath.Join(dir, "vm.sock"),
		control: filepath.Join(dir, "control"), log: &lines{}, ended: make(chan error, 1)}
	v.keeper = exec.Command(program, append([]string{"device", "--gpu", "soft", "--keeper", "on",
		"--set", "channels=2", "--socket-path", v.socket, "--control", v.control}, options...)...)
	v.keeper.Stderr, v.keeper.SysProcAttr = v.log, endsWithTest()
	if err := v.keeper.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { v.ended <- v.keeper.Wait() }()
	t.Cleanup(func() { _ = v.keeper.Process.Kill() })
	within(t, "the device waits", func() bool {
		return strings.Contains(v.log.String(), "waits for a front end")
	})
	v.guest = virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: 8 << 20})
	v.front = vhostusertest.NewFrontend(t, dial(t, v.socket))
	offered := v.front.Realize(3) &^ vhostuser.FeatureLogAll
	v.front.MustSend(vhostuser.SetFeatures, vhostusertest.Word(offered))
	v.front.SetMemory(v.guest)
	v.guest.Alloc(4096, 4096)
	for i := range 3 {
		v.queues = append(v.queues, vhostusertest.NewQueue(t, v.guest, i, 64))
	}
	v.request = v.guest.Alloc(4096, 4096)
	v.front.Start(v.queues...)
	v.must(wire.ControlHello, 0, wire.Version)
	for _, p := range leaks.Children(v.child()) { // it outlives its parent
		v.starter = p
	}
	return v
}

// child is the device process's number; 0: there is none.
func (v *keptVM) child() int {
	for _, child := range leaks.Children(v.keeper.Process.Pid) {
		return child
	}
	return 0
}

// workers are the numbers of the worker and the mover.
func (v *keptVM) workers() (pids []int) {
	v.t.Helper()
	for _, p := range leaks.Children(v.starter) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p))
		if role := strings.Split(string(line), "\x00"); len(role) > 1 &&
			(role[1] == "worker" || role[1] == "mover") {
			pids = append(pids, p)
		}
	}
	slices.Sort(pids)
	return pids
}

// kill kills the device process.
func (v *keptVM) kill() {
	v.t.Helper()
	var child int
	within(v.t, "there is a device process", func() bool { child = v.child(); return child != 0 })
	if err := unix.Kill(child, unix.SIGKILL); err != nil {
		v.t.Fatal(err)
	}
}

func (v *keptVM) kick(q int) { _, _ = unix.Write(v.queues[q].Kick, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// post makes a request.
func (v *keptVM) post(kind, channel, number uint32) {
	v.t.Helper()
	var b [wire.ControlRequestSize]byte
	(&wire.ControlRequest{Type: kind, Channel: channel, Number: number, Pid: 9}).Encode(b[:])
	v.guest.Write(v.request, b[:])
	v.guest.Write(v.request+256, make([]byte, 256))
	if _, err := v.queues[0].Driver.Add(
		virtqueuetest.Desc{Addr: v.request, Len: uint32(len(b))},
		virtqueuetest.Desc{Addr: v.request + 256, Len: 256, Flags: virtqueuetest.Write},
	); err != nil {
		v.t.Fatal(err)
	}
	v.kick(0)
}

// reap waits for a chain of a queue's to come back, and wants no other.
func (v *keptVM) reap(q int) (head uint32) {
	v.t.Helper()
	within(v.t, fmt.Sprintf("queue %d gives a chain back", q), func() (ok bool) {
		head, _, ok = v.queues[q].Driver.Reap()
		return ok
	})
	return head
}

// quiet wants no chain of any queue to come back.
func (v *keptVM) quiet(when string) {
	v.t.Helper()
	for i, q := range v.queues {
		if head, _, ok := q.Driver.Reap(); ok {
			v.t.Errorf("%s: queue %d gives chain %d back, again", when, i, head)
		}
	}
}

func (v *keptVM) answer() (a wire.ControlResponse) {
	v.t.Helper()
	v.reap(0)
	a.Decode(v.guest.Read(v.request+256, wire.ControlResponseSize))
	return a
}

func (v *keptVM) must(kind, channel, number uint32) (a wire.ControlResponse) {
	v.t.Helper()
	v.post(kind, channel, number)
	if a = v.answer(); a.Status != wire.StatusOk {
		v.t.Fatalf("request %d: status %d\n%s", kind, a.Status, v.log)
	}
	return a
}

// event gives a channel's queue a chain, which its worker keeps.
func (v *keptVM) event(channel int) uint32 {
	v.t.Helper()
	at := v.guest.Alloc(4096, 4096)
	wiretest.Chain(v.guest.Write, at, wire.ChainHeader{Type: wire.ChainEvent})
	head, err := v.queues[1+channel].Driver.Add(
		virtqueuetest.Desc{Addr: at, Len: wire.ChainHeaderSize},
		virtqueuetest.Desc{Addr: at + 128, Len: wire.EventRecordSize, Flags: virtqueuetest.Write})
	if err != nil {
		v.t.Fatal(err)
	}
	v.kick(1 + channel)
	return uint32(head)
}

// end has the VM end, and with it the device.
func (v *keptVM) end() {
	v.t.Helper()
	_ = v.front.Sock.Close()
	select {
	case err := <-v.ended:
		if err != nil {
			v.t.Errorf("the keeper: %v\n%s", err, v.log)
		}
	case <-time.After(time.Minute):
		v.t.Errorf("the keeper has not ended:\n%s", v.log)
	}
	for _, path := range []string{v.socket, v.control} {
		if _, err := os.Lstat(path); err == nil {
			v.t.Errorf("%s is left", path)
		}
	}
}

// TestVMOutlivesTheDeviceProcess: killed with a program in the VM, nothing is lost: the program's
// worker lives on, with the chains that it has, and gives each back once when its channel is
// closed.
func TestVMOutlivesTheDeviceProcess(t *testing.T) {
	v := newKeptVM(t)
	generation := v.must(wire.ControlHello, 0, wire.Version).Number
	if _, err := admin.Ask(v.control, admin.Request{Set: "batch-commands=7"}); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		v.must(wire.ControlOpen, 1, 0)
		want := map[uint32]bool{v.event(1): true, v.event(1): true}
		if round == 1 { // they are the worker's by now
			time.Sleep(100 * time.Millisecond)
		}
		before := v.workers()
		v.kill()
		v.must(wire.ControlPing, 0, 0)
		if round == 1 {
			v.kill() // a device process that takes over what was taken over
			v.must(wire.ControlPing, 0, 0)
		}
		v.quiet("after a crash")
		// nothing was copied: there is no mover
		if now := v.workers(); len(now) != 1 || !slices.Equal(now, before) {
			t.Errorf("the worker was %v and is %v\n%s", before, now, v.log)
		}
		v.must(wire.ControlClose, 1, 0)
		for range 2 {
			if head := v.reap(2); !want[head] {
				t.Errorf("chain %d comes back, which was not given, or twice", head)
			} else {
				delete(want, head)
			}
		}
		v.quiet("after the end")
	}
	if g := v.must(wire.ControlHello, 0, wire.Version).Number; g != generation {
		t.Errorf("the generation was %d and is %d", generation, g)
	}
	a, err := admin.Ask(v.control, admin.Request{Stats: true})
	if err != nil || a.Policies["batch-commands"] != "7" {
		t.Errorf("what was set is %q, %v", a.Policies["batch-commands"], err)
	}
	c := dial(t, v.socket)
	mustBeRefused(t, v.socket)
	c.Close()
	v.end()
}

// TestRequestsOutliveTheDeviceProcess: killed at any moment of requests, each is answered, once.
func TestRequestsOutliveTheDeviceProcess(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	v := newKeptVM(t)
	for range rounds {
		go func(pause time.Duration) {
			time.Sleep(pause)
			_ = v.keeper.Process.Signal(syscall.SIGUSR2) // it is killed, and that is no crash
		}(time.Duration(rand.IntN(60)) * time.Millisecond)
		for range 3 {
			v.post(wire.ControlOpen, 0, 0)
			if a := v.answer(); a.Status != wire.StatusOk {
				t.Fatalf("OPEN: status %d\n%s", a.Status, v.log)
			}
			v.must(wire.ControlPing, 0, 0)
			v.must(wire.ControlClose, 0, 0)
			v.quiet("after requests")
		}
	}
	v.end()
}

// TestDeviceThatCrashesAgainAndAgain is given up, and then the front end learns of it.
func TestDeviceThatCrashesAgainAndAgain(t *testing.T) {
	v := newKeptVM(t)
	for range 5 {
		v.must(wire.ControlPing, 0, 0)
		v.kill()
	}
	select {
	case err := <-v.ended:
		if err == nil || !strings.Contains(v.log.String(), "it crashes again and again") {
			t.Errorf("the keeper: %v\n%s", err, v.log)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the keeper goes on:\n%s", v.log)
	}
	_ = v.front.Sock.SetDeadline(time.Now().Add(time.Minute))
	if _, err := v.front.Sock.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the front end: %v", err)
	}
}

// runs says whether a process does, and isn't only to be waited for.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// TestKeeperEndsItsDevice: told to, or killed, it leaves nothing behind.
func TestKeeperEndsItsDevice(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		v := newKeptVM(t)
		v.must(wire.ControlOpen, 0, 0)
		child := v.child()
		_ = v.keeper.Process.Signal(s)
		if err := <-v.ended; (err == nil) != (s != syscall.SIGKILL) {
			t.Errorf("%v: %v\n%s", s, err, v.log)
		}
		within(t, "the device process is gone", func() bool { return !runs(child) })
		_ = v.front.Sock.SetDeadline(time.Now().Add(time.Minute))
		if _, err := v.front.Sock.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("%v: the front end: %v", s, err)
		}
	}
}

// TestKeeperEndsADeviceThatBegins: told to end when the device process was just replaced, which
// can't listen yet, it ends as it should.
func TestKeeperEndsADeviceThatBegins(t *testing.T) {
	for _, pause := range []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond} {
		v := newKeptVM(t)
		_ = v.keeper.Process.Signal(syscall.SIGUSR2)
		time.Sleep(pause)
		_ = v.keeper.Process.Signal(syscall.SIGTERM)
		if err := <-v.ended; err != nil {
			t.Errorf("after %v: %v\n%s", pause, err, v.log)
		}
	}
}

// TestKeeperTakesSockets: those that the keeper inherits outlive the device process, too.
func TestKeeperTakesSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	v := &keptVM{t: t, log: &lines{}, ended: make(chan error, 1)}
	v.keeper = exec.Command(os.Args[0], "device", "--gpu", "soft", "--keeper", "on", "--fd", "3")
	v.keeper.ExtraFiles, v.keeper.Stderr = []*os.File{file}, v.log
	v.keeper.SysProcAttr = endsWithTest()
	if err := v.keeper.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = file.Close(), l.Close()
	go func() { v.ended <- v.keeper.Wait() }()
	waits := func(n int) {
		t.Helper()
		within(t, "the device waits", func() bool {
			return strings.Count(v.log.String(), "waits for a front end") == n
		})
	}
	waits(1)
	v.kill()
	waits(2)
	f := vhostusertest.NewFrontend(t, dial(t, path))
	f.Realize(17)
	v.kill()
	f.MustSend(vhostuser.SetFeatures, vhostusertest.Word(f.MustQuery(vhostuser.GetFeatures)))
	_ = f.Sock.Close()
	if err := <-v.ended; err != nil {
		t.Errorf("the keeper: %v\n%s", err, v.log)
	}
}
