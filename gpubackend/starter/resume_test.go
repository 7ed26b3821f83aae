// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// crash ends a device process, and returns its connection as the next one has it.
func crash(t *testing.T, device *net.UnixConn) *net.UnixConn {
	t.Helper()
	f, err := device.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	device.Close()
	return c.(*net.UnixConn)
}

// asks sends a request, and waits until its answer is there to be read.
func asks(t *testing.T, device *net.UnixConn, m *message, fd int) {
	t.Helper()
	if err := send(device, m, fd); err != nil {
		t.Fatal(err)
	}
	raw, err := device.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000)
	}); err != nil {
		t.Fatal(err)
	}
}

// TestResume: the next device process has the children of those that crashed at any moment. It
// learns how they end, and can start others.
func TestResume(t *testing.T) {
	device, starter := pair(t)
	over := make(chan error, 1)
	go func() {
		over <- Serve(starter, Config{Start: execute,
			Count: func(int) (none [ledger.GPUs]uint64, err error) { return none, nil }})
	}()
	_, theirs := control(t)
	fd := int(theirs.Fd())
	asks(t, device, &message{kind: start, role: Usage, id: 1}, fd)
	if m, fd, err := receive(device); err != nil || m.kind != started || unix.Close(fd) != nil {
		t.Fatalf("%+v, %v", m, err)
	}
	device = crash(t, device) // one that knew its child
	asks(t, device, &message{kind: start, role: Usage, id: 7}, fd)
	asks(t, device, &message{kind: count, id: 9}, -1)
	device = crash(t, device) // one that hadn't read that it has another
	asks(t, device, &message{kind: list, id: 1 << 31}, -1)
	device = crash(t, device) // one that was about to take over
	client, children, err := Resume(device)
	if err != nil {
		t.Fatal(err)
	}
	if len(children) != 2 || children[0].PID() == children[1].PID() || client.last != 9 ||
		!client.knows {
		t.Fatalf("children %+v, request %d", children, client.last)
	}
	p, err := client.Start(Mover, theirs)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("a new child ended: %v", err)
	}
	if bytes, err := client.Count(); err != nil || len(bytes) != 2 {
		t.Errorf("%v, %v", bytes, err)
	}
	killAll(t, children)
	client.Close()
	if err := <-over; err != nil {
		t.Errorf("the starter process: %v", err)
	}
	starter.Close()
}

// killAll kills children, and fails the test if one of them ends in another way.
func killAll(t *testing.T, children []*Process) {
	t.Helper()
	for _, p := range children {
		p.Kill()
		if err := p.Wait(); err == nil || err.Error() != "signal: killed" {
			t.Errorf("a child ended: %v", err)
		}
	}
}

// TestResumeAfterHalfAList: the next device process has all children, even if the one before has
// crashed while it read the list of them.
func TestResumeAfterHalfAList(t *testing.T) {
	device, starter := pair(t)
	over := make(chan error, 1)
	go func() { over <- Serve(starter, Config{Start: execute}) }()
	_, theirs := control(t)
	const many = 3
	for id := range uint32(many) {
		asks(t, device, &message{kind: start, role: Usage, id: id}, int(theirs.Fd()))
		if m, fd, err := receive(device); err != nil || m.kind != started || unix.Close(fd) != nil {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	for range many {
		device = crash(t, device)
		asks(t, device, &message{kind: list, id: 1 << 31}, -1)
		if m, fd, err := receive(device); err != nil || m.kind != listing && m.kind != listed ||
			m.kind == listing && unix.Close(fd) != nil {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	device = crash(t, device)
	client, children, err := Resume(device)
	if err != nil || len(children) != many {
		t.Fatalf("%d children of %d, %v", len(children), many, err)
	}
	killAll(t, children)
	client.Close()
	if err := <-over; err != nil {
		t.Errorf("the starter process: %v", err)
	}
	starter.Close()
}

// TestResumeWithoutStarter: the starter process is gone as well, or gives another answer.
func TestResumeWithoutStarter(t *testing.T) {
	device, starter := pair(t)
	starter.Close()
	if _, _, err := Resume(device); !errors.Is(err, ErrGone) {
		t.Errorf("error %v", err)
	}
	device, starter = pair(t)
	go func() {
		m, _, err := receive(starter)
		if err == nil {
			_ = send(starter, &message{kind: counted, id: m.id}, -1)
		}
	}()
	if _, _, err := Resume(device); !errors.Is(err, errMessage) {
		t.Errorf("error %v", err)
	}
}
