// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/socket"
)

// pair makes the two ends.
func pair(t *testing.T) (device, starter *net.UnixConn) {
	t.Helper()
	device, far, err := socket.Connect(socket.Packets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { device.Close() })
	defer far.Close()
	if starter, err = socket.Of(far); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { starter.Close() })
	return device, starter
}

// control makes a child's connection.
func control(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, theirs, err := socket.Pair(socket.Stream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// scripts are the programs of the tests' roles.
var scripts = map[Role]string{
	Worker: "exec cat <&3 >&3", // until its connection ends
	Mover:  "exit 3",
	Usage:  "exec sleep 60",
}

func execute(r Role, control *os.File) (Child, error) {
	c := exec.Command("sh", "-c", scripts[r])
	c.ExtraFiles = []*os.File{control}
	return Execute(c, (*exec.Cmd).Start)
}

// serve runs a starter process's loop.
func serve(t *testing.T, c Config) (client *Client, result <-chan error) {
	t.Helper()
	device, starter := pair(t)
	over := make(chan error, 1)
	go func() {
		err := Serve(starter, c)
		starter.Close()
		over <- err
	}()
	client = NewClient(device)
	t.Cleanup(client.Close)
	return client, over
}

// TestSignals: a client learns which signal has ended a child, and what to do if its sandbox did
// that.
func TestSignals(t *testing.T) {
	for _, test := range []struct {
		script string
		signal syscall.Signal
		says   string
	}{
		{"kill -SYS $$", unix.SIGSYS, "--sandbox off"},
		{"kill -SEGV $$", unix.SIGSEGV, "segmentation fault"},
		{"exit 139", 0, "exit status 139"},
	} {
		client, _ := serve(t, Config{Start: func(Role, *os.File) (Child, error) {
			return Execute(exec.Command("sh", "-c", test.script), (*exec.Cmd).Start)
		}})
		_, theirs := control(t)
		p, err := client.Start(Worker, theirs)
		if err != nil {
			t.Fatal(err)
		}
		err = p.Wait()
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: it ended: %v", test.script, err)
		}
		var by interface{ EndedBy() syscall.Signal }
		if is := errors.As(err, &by); is != (test.signal != 0) || is &&
			by.EndedBy() != test.signal {
			t.Errorf("%s: by a signal: %t (%v)", test.script, is, err)
		}
	}
}

// TestLiesAboutSignals: a signal that is reported without a text counts as an ordinary end.
func TestLiesAboutSignals(t *testing.T) {
	p := newProcess(1, 2, -1, nil)
	if p.end("", unix.SIGSYS); p.how != nil {
		t.Errorf("it ended: %v", p.how)
	}
}

// TestForbiddenCall: if a system call filter has ended a child, the report says what to do.
func TestForbiddenCall(t *testing.T) {
	child, err := Execute(exec.Command("sh", "-c", "kill -SYS $$"), (*exec.Cmd).Start)
	if err != nil {
		t.Fatal(err)
	}
	err = child.Wait()
	unix.Close(child.Descriptor())
	if err == nil || !strings.Contains(err.Error(), "bad system call") ||
		!strings.Contains(err.Error(), "--sandbox off") {
		t.Errorf("error %v", err)
	}
}

// TestChildren: children get their connection, and the client is told how they end.
func TestChildren(t *testing.T) {
	client, over := serve(t, Config{Start: execute})
	ours, theirs := control(t)
	p, err := client.Start(Worker, theirs)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	b := make([]byte, 5)
	if _, err := io.WriteString(ours, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(ours, b); err != nil || string(b) != "hello" {
		t.Fatalf("%q, %v", b, err)
	}
	if err := unix.Kill(p.PID(), 0); err != nil {
		t.Errorf("process %d: %v", p.PID(), err)
	}
	ours.Close()
	if err := p.Wait(); err != nil {
		t.Errorf("it ended: %v", err)
	}
	p.Kill() // what is gone already
	_, theirs = control(t)
	if p, err = client.Start(Mover, theirs); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("it ended: %v", err)
	}
	if p, err = client.Start(Usage, theirs); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if err := p.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended: %v", err)
	}
	client.Close()
	if err := <-over; err != nil {
		t.Errorf("the starter process: %v", err)
	}
	if _, err := client.Start(Worker, theirs); err == nil {
		t.Error("something was started after the end")
	}
}

// TestStartFails: the client is told the reason, and the starter process goes on.
func TestStartFails(t *testing.T) {
	why := strings.Repeat("no ", maxText)
	client, _ := serve(t, Config{Start: func(r Role, control *os.File) (Child, error) {
		if r == Worker {
			return nil, errors.New(why)
		}
		return execute(r, control)
	}})
	_, theirs := control(t)
	if _, err := client.Start(Worker, theirs); err == nil ||
		!strings.HasSuffix(err.Error(), why[:maxText]) {
		t.Errorf("%v", err)
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := client.Start(Mover, file); err == nil {
		t.Error("a child got a file as its connection")
	}
	p, err := client.Start(Mover, theirs)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
}

// TestAreBounded: the number of children is bounded, and others can start when some have ended.
func TestAreBounded(t *testing.T) {
	end := make(chan struct{})
	client, _ := serve(t, Config{Start: func(Role, *os.File) (Child, error) {
		return newFake(end), nil
	}})
	_, theirs := control(t)
	var all []*Process
	for range MaxChildren {
		p, err := client.Start(Worker, theirs)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if _, err := client.Start(Worker, theirs); err == nil {
		t.Error("there is one more")
	}
	close(end)
	for _, p := range all {
		<-p.ended
		unix.Close(p.fd)
	}
}

// fake is a child that is no process, and ends when a channel is closed.
type fake struct {
	fd  int
	end <-chan struct{}
}

func newFake(end <-chan struct{}) fake {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		panic(err)
	}
	return fake{fd, end}
}

func (f fake) PID() int        { return 1 }
func (f fake) Descriptor() int { return f.fd }
func (f fake) Wait() error     { <-f.end; return nil }

// TestKernelMustSayIt: a process counts as gone only if the kernel says so, not if the starter
// process does, or is gone itself.
func TestKernelMustSayIt(t *testing.T) {
	for _, says := range []bool{true, false} {
		device, starter := pair(t)
		client := NewClient(device)
		_, theirs := control(t)
		type result struct {
			p   *Process
			err error
		}
		is := make(chan result)
		go func() {
			p, err := client.Start(Usage, theirs)
			is <- result{p, err}
		}()
		m, fd, err := receive(starter)
		if err != nil || m.kind != start || m.role != Usage {
			t.Fatalf("%+v, %v", m, err)
		}
		child, err := execute(Usage, os.NewFile(uintptr(fd), ""))
		if err != nil {
			t.Fatal(err)
		}
		_ = send(starter, &message{kind: started, id: m.id, pid: uint32(child.PID())},
			child.Descriptor())
		unix.Close(child.Descriptor())
		r := <-is
		if r.err != nil {
			t.Fatal(r.err)
		}
		if says {
			_ = send(starter, &message{kind: ended, id: m.id}, -1)
		} else {
			starter.Close()
		}
		waited := make(chan error)
		go func() { waited <- r.p.Wait() }()
		select {
		case err := <-waited:
			t.Errorf("it is gone: %v", err)
		case <-time.After(100 * time.Millisecond):
			r.p.Kill()
			<-waited
		}
		_ = child.Wait()
		client.Close()
	}
}

// TestBadRequests end the starter process.
func TestBadRequests(t *testing.T) {
	long := (&message{kind: failed, text: strings.Repeat("x", maxText)}).append(nil)
	for name, text := range map[string]string{
		"short": "x", "nothing known": strings.Repeat("\xff", 64), "long": string(long) + "x",
		"an answer": string((&message{kind: started}).append(nil)),
		"an end":    string((&message{kind: ended}).append(nil)),
		"no role":   string((&message{kind: start}).append(nil)),
		"no file":   string((&message{kind: reopen}).append(nil)),
		"huge":      strings.Repeat("\x01", maxMessage+100),
	} {
		device, starter := pair(t)
		over := make(chan error, 1)
		go func() { over <- Serve(starter, Config{Start: execute}) }()
		if _, err := io.WriteString(device, text); err != nil {
			t.Fatal(err)
		}
		if err := <-over; err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	device, starter := pair(t)
	over := make(chan error, 1)
	go func() { over <- Serve(starter, Config{Start: execute}) }()
	rights := unix.UnixRights(0, 1)
	b := (&message{kind: start, role: Worker}).append(nil)
	if _, _, err := device.WriteMsgUnix(b, rights, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-over; !errors.Is(err, errMessage) {
		t.Errorf("two files: %v", err)
	}
}

// TestConnect: the starter process connects only to the sockets that were named.
func TestConnect(t *testing.T) {
	dir := t.TempDir()
	named, other, absent := dir+"/named", dir+"/other", dir+"/absent"
	heard := make(chan string)
	for _, path := range []string{named, other} {
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.AcceptUnix()
				if err != nil {
					return
				}
				b := make([]byte, 16)
				n, _ := c.Read(b)
				heard <- path + " " + string(b[:n])
				c.Close()
			}
		}()
	}
	client, over := serve(t, Config{Sockets: []string{named, absent}, Network: "unixpacket"})
	c, err := client.Connect(named)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != named+" hello" {
		t.Errorf("heard %q", got)
	}
	if _, err := client.Connect(absent); !errors.Is(err, unix.ENOENT) {
		t.Errorf("where nobody is: %v", err)
	}
	if _, err := client.Connect(other); err == nil {
		t.Error("to another socket")
	}
	if err := <-over; !errors.Is(err, errMessage) {
		t.Errorf("the starter process: %v", err)
	}
}

// TestRemove: the starter process removes only what the device process has made.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	made, kept, file := dir+"/made", dir+"/kept", dir+"/file"
	for _, path := range []string{made, kept} {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	client, _ := serve(t, Config{Made: []string{made, kept, file, dir + "/not"}})
	for _, path := range []string{made, file, dir + "/not"} {
		if err := client.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	for _, path := range []string{kept, file} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("it isn't there any more: %v", err)
		}
	}
	client, over := serve(t, Config{Made: []string{made}})
	if err := client.Remove(kept); err == nil {
		t.Error("it removes what isn't the device process's")
	}
	if err := <-over; !errors.Is(err, errMessage) {
		t.Errorf("the starter process: %v", err)
	}
}

// FuzzMessages: decode accepts only what append makes.
func FuzzMessages(f *testing.F) {
	for _, m := range []message{
		{kind: start, role: Worker, id: 7}, {kind: started, id: 7, pid: 9},
		{kind: ended, id: 1, text: "signal: killed"},
		{kind: counted, id: 3, used: []usedBy{{1, 0, 2}, {3, 15, 1 << 40}}},
	} {
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		if again := m.append(nil); string(again) != string(b) {
			t.Errorf("%x became %x", b, again)
		}
	})
}
