// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
)

// lives is the environment variable that says what a child does.
const lives = "KEEPER_TEST_CHILD"

func TestMain(m *testing.M) {
	if life := os.Getenv(lives); life != "" {
		live(life)
	}
	os.Exit(leaks.Main(m))
}

// The numbers under which a child keeps what it has.
const (
	socketNumber = 7
	countNumber  = 4000000000
)

// live is a child. The first child inherits a socket beside its connection. Each child writes to it
// the number of children so far, as one byte: "1", "2" and so on.
func live(life string) {
	c, held, _, err := Open(3)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	if len(held) == 0 {
		held[socketNumber] = 4
		if held[countNumber], err = unix.MemfdCreate("count", unix.MFD_CLOEXEC); err != nil {
			os.Exit(9)
		}
		for number, fd := range held {
			if c.Keep(number, fd) != nil {
				os.Exit(9)
			}
		}
	}
	var count [1]byte
	_, _ = unix.Pread(held[countNumber], count[:], 0)
	count[0]++
	_, _ = unix.Pwrite(held[countNumber], count[:], 0)
	switch life {
	case "waits":
		_ = c.Ready()
	case "ends":
		_, _ = c.Ready(), c.DropAll()
	case "declines":
		if count[0]%2 == 1 {
			_ = c.Ready()
		}
	}
	_, _ = unix.Write(held[socketNumber], []byte{'0' + count[0]})
	switch {
	case life == "four" && count[0] == 4:
		_ = c.DropAll()
		os.Exit(3)
	case life == "four" && count[0] == 2:
		panic("a bug")
	case life == "asks" && count[0] == 8:
		_ = c.DropAll()
		os.Exit(3)
	case life == "asks":
		_ = c.Replace()
		select {}
	case life == "ready":
		_, _ = c.Ready(), c.Ready()
	case life == "waits", life == "declines" && count[0]%2 == 1:
		select {}
	case life == "ends":
		_, _ = unix.Read(held[socketNumber], make([]byte, 1))
		os.Exit(0)
	case life == "odd":
		_, _ = c.conn.Write([]byte("no message"))
		select {}
	case life == "child":
		_ = send(c.conn, message{begin, 0, -1})
		select {}
	case life == "leaves":
		os.Exit(0)
	}
	_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
	select {}
}

// process is a child that is a process.
type process struct{ *exec.Cmd }

func (p process) Kill() { _ = p.Process.Kill() }

// clock is a clock that doesn't wait, and notes for how long it should have waited.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.waits = c.now.Add(d), append(c.waits, d)
	over := make(chan time.Time, 1)
	over <- c.now
	return over
}

// rig is a keeper whose first child has one end of a socket pair.
type rig struct {
	*Keeper
	t      *testing.T
	front  *net.UnixConn // the other end
	log    bytes.Buffer
	starts int
	clock  clock
}

func newRig(t *testing.T, life string) *rig {
	t.Helper()
	front, back, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	socket := os.NewFile(uintptr(back), "socket")
	r := &rig{t: t, front: front}
	t.Cleanup(func() { _, _ = front.Close(), socket.Close() })
	log := logrus.New()
	log.SetOutput(&r.log)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.Keeper = New(Config{Log: log, Clock: &r.clock, Start: func(control *os.File) (Child, error) {
		p := process{exec.Command(self)}
		p.Env = append(os.Environ(), lives+"="+life)
		p.ExtraFiles = []*os.File{control}
		if r.starts++; r.starts == 1 {
			p.ExtraFiles = append(p.ExtraFiles, socket)
		}
		err := p.Start()
		_ = socket.Close()
		return p, err
	}})
	return r
}

// says checks what the children write next.
func (r *rig) says(want string) {
	r.t.Helper()
	for _, c := range want {
		b := make([]byte, 2)
		n, err := r.front.Read(b)
		if err != nil || string(b[:n]) != string(c) {
			r.t.Fatalf("read %q, %v, want %q", b[:n], err, string(c))
		}
	}
}

// closed checks that the connection has ended.
func (r *rig) closed() {
	r.t.Helper()
	if n, err := r.front.Read(make([]byte, 1)); err != io.EOF {
		r.t.Errorf("after the end: read %d bytes, %v", n, err)
	}
}

// TestNextChildGoesOn: when a child is killed, panics, or is killed again, the next one has its
// connection.
func TestNextChildGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, "four")
	err := r.Run(context.Background())
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("Run: %v, want how the last one ended", err)
	}
	r.says("1234")
	r.closed()
	if want := []time.Duration{DefaultPause, 2 * DefaultPause}; !slices.Equal(r.clock.waits, want) {
		t.Errorf("pauses %v, want %v", r.clock.waits, want)
	}
	if n := strings.Count(r.log.String(), "level=error"); n != 3 || len(r.held) != 0 {
		t.Errorf("%d crashes in the log, %d descriptors are kept:\n%s", n, len(r.held), &r.log)
	}
}

// TestCrashesAreBounded: crashes of any kind are bounded. Then the other side sees the connection
// end.
func TestCrashesAreBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ life, how string }{
		{"dies", "signal: killed"}, {"odd", errMessage.Error()}, {"child", errMessage.Error()},
		{"leaves", errEnded.Error()},
	} {
		r := newRig(t, tt.life)
		err := r.Run(context.Background())
		if !errors.Is(err, ErrCrashes) || !strings.Contains(err.Error(), tt.how) {
			t.Errorf("%s: Run: %v", tt.life, err)
		}
		r.says("12345")
		r.closed()
		if want := []time.Duration{DefaultPause, 2 * DefaultPause, 4 * DefaultPause}; !slices.Equal(
			r.clock.waits, want) {
			t.Errorf("%s: pauses %v, want %v", tt.life, r.clock.waits, want)
		}
	}
}

// TestOldCrashesAreForgotten: only the number of crashes within some time counts.
func TestOldCrashesAreForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, "dies")
	start := r.Start
	r.Start = func(control *os.File) (Child, error) {
		r.clock.mu.Lock()
		r.clock.now = r.clock.now.Add(DefaultWindow / 3)
		r.clock.mu.Unlock()
		if r.starts == 9 {
			return nil, errors.New("enough")
		}
		return start(control)
	}
	r.Crashes = 4
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- r.Run(ctx) }()
	r.says("123456789")
	stop()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	r.closed()
}

// TestLast: a child that is told to end isn't replaced, even if it crashes.
func TestLast(t *testing.T) {
	t.Parallel()
	r := newRig(t, "waits")
	start := r.Start
	var child Child
	r.Start = func(control *os.File) (c Child, err error) {
		child, err = start(control)
		return child, err
	}
	over := make(chan error, 1)
	go func() { over <- r.Run(context.Background()) }()
	r.says("1")
	r.Last()
	child.Kill()
	var exit *exec.ExitError
	if err := <-over; !errors.As(err, &exit) {
		t.Errorf("Run: %v, want how it ended", err)
	}
	r.closed()
}

// TestReady: the keeper hears each child that says that it is ready, each time.
func TestReady(t *testing.T) {
	t.Parallel()
	r := newRig(t, "ready")
	heard := 0
	r.Ready = func() { heard++ }
	if err := r.Run(context.Background()); !errors.Is(err, ErrCrashes) {
		t.Errorf("Run: %v", err)
	}
	if heard != 2*DefaultCrashes {
		t.Errorf("heard %d times", heard)
	}
}

// TestNothingToKeep: a child that can't be started, or that keeps nothing, isn't replaced.
func TestNothingToKeep(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	sad := errors.New("no such program")
	r.Start = func(*os.File) (Child, error) { return nil, sad }
	if err := r.Run(context.Background()); !errors.Is(err, sad) {
		t.Errorf("Run: %v", err)
	}
	r.Start = func(*os.File) (Child, error) {
		p := process{exec.Command("false")}
		return p, p.Cmd.Start()
	}
	if err := r.Run(context.Background()); err == nil || err.Error() != "exit status 1" {
		t.Errorf("Run: %v", err)
	}
}

// TestKeptIsBounded: descriptors are replaced by number, and there are only so many.
func TestKeptIsBounded(t *testing.T) {
	t.Parallel()
	k := New(Config{})
	for i := range uint32(MaxKept) {
		if err := k.obey(message{keep, i, -1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.obey(message{keep, 5, -1}); err != nil {
		t.Error(err)
	}
	if err := k.obey(message{keep, MaxKept, -1}); !errors.Is(err, errMessage) {
		t.Errorf("one too many: %v", err)
	}
	_ = k.obey(message{drop, 5, -1})
	_ = k.obey(message{drop, 5, -1})
	if err := k.obey(message{keep, MaxKept, -1}); err != nil || len(k.held) != MaxKept {
		t.Errorf("in place of another: %v, %d are kept", err, len(k.held))
	}
	if _ = k.obey(message{dropAll, 0, -1}); len(k.held) != 0 {
		t.Errorf("%d are kept", len(k.held))
	}
}

// undead is a child that can't be killed.
type undead struct{ t *testing.T }

func (u undead) Kill()     { u.t.Error("it is killed, and nothing would go on") }
func (undead) Wait() error { return nil }

// TestNoRoom: after a descriptor couldn't be kept, none is kept any more, and the present child
// stays.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	if _, err := parse([]byte("\x03\x00\x00\x00\x00\x00\x00\x00"), nil,
		unix.MSG_CTRUNC); !errors.Is(err, errNoRoom) {
		t.Errorf("a descriptor was lost: %v", err)
	}
	var said bytes.Buffer
	log := logrus.New()
	log.SetOutput(&said)
	k := New(Config{Log: log})
	k.setChild(undead{t}, false)
	for number := range uint32(2) {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.obey(message{keep, number, fd}); err != nil || len(k.held) != 1-int(number) {
			t.Errorf("message %d: %v are kept, %v", number, k.held, err)
		}
		k.lack()
		if len(k.held) != 0 {
			t.Errorf("%v are kept", k.held)
		}
	}
	k.Replace()
	if n := strings.Count(said.String(), "level=error"); n != 2 {
		t.Errorf("the log:\n%s", &said)
	}
}

// TestSpares: the number of spare descriptors stays the same, however often they are taken. The
// package's tests leave none.
func TestSpares(t *testing.T) {
	t.Parallel()
	var s spares
	s.take()
	s.take()
	if len(s) != forStart {
		t.Errorf("%d are spare", len(s))
	}
	s.give()
	if s.give(); len(s) != 0 {
		t.Errorf("%d are spare", len(s))
	}
}
