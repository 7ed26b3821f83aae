// SPDX-License-Identifier: Apache-2.0

package resumption

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/checkpoint"
	"github.com/paracuda/paracuda/gpubackend/keeper"
	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// lives is in the environment of the device process of these tests.
const lives = "RESUMPTION_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(lives) != "" {
		if err := live(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(9)
		}
		os.Exit(0)
	}
	os.Exit(leaks.Main(m))
}

// starts is how many processes there are to be: one, and two more for each message.
const starts = 1 + 2*(12+1+2+14+1+1+1+4)

// live is the device process: it kills itself at each message, before it takes that from the socket
// and after, unless it has begun with that, until a driver resets the device.
func live() error {
	log := logrus.New()
	k, err := Open(3, log)
	if err != nil {
		return err
	}
	if err := countOwn(k); err != nil {
		return errors.Join(err, k.Close()) // which is no crash
	}
	dev := &device{}
	spare := true
	opts := vhostuser.Options{Keep: func(p *vhostuser.Snapshot) {
		switch {
		case p.Pending == nil || p.Pending.Request == vhostuser.ResetDevice:
			spare = false
		case spare:
			spare = false
		default:
			_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
			select {}
		}
	}}
	s, err := k.Resume(dev, opts)
	if err == nil && s == nil {
		spare = false
		var sock *net.UnixConn
		if sock, err = socket.Conn(4); err == nil {
			s, err = k.Begin(sock, dev, opts)
		}
	}
	if err != nil {
		return err
	}
	err = errors.Join(s.Run(context.Background()), k.Close())
	if err == nil {
		err = k.KeepOwn(0, 0) // after the end: or the keeper took that for a crash
	}
	if err == nil && counted != starts {
		err = fmt.Errorf("%d processes, want %d", counted, starts)
	}
	return err
}

// countOwn counts the processes in memory of the device's own, which the first of them has kept.
func countOwn(k *Keeping) error {
	own := k.Own()
	fd, is := own[MaxOwn-1]
	var count [1]byte
	if len(own) == 0 && k.sock == nil { // the first
		var err error
		if fd, err = unix.MemfdCreate("own", unix.MFD_CLOEXEC); err != nil {
			return err
		}
		is = true
		if err := errors.Join(k.KeepOwn(0, fd), k.KeepOwn(MaxOwn-1, fd), k.DropOwn(0)); err != nil {
			return err
		}
	} else if n, err := unix.Pread(fd, count[:], 0); n != 1 || err != nil {
		is = false
	}
	if len(own) > 1 || !is {
		return fmt.Errorf("%d descriptors of the device's own, want one", len(own))
	}
	count[0]++
	if _, err := unix.Pwrite(fd, count[:], 0); err != nil {
		return err
	}
	counted = int(count[0])
	return nil
}

// counted is how many processes there were.
var counted int

// device is a device that knows where its queues stand.
type device struct{ base [2]uint16 }

func (d *device) NumQueues() int                          { return 2 }
func (d *device) Features() uint64                        { return 0 }
func (d *device) SetFeatures(uint64) error                { return nil }
func (d *device) ReadConfig(_, _ uint32) ([]byte, error)  { return []byte("config"), nil }
func (d *device) WriteConfig(uint32, []byte) error        { return nil }
func (d *device) SetMemory(*vhostuser.Memory) error       { return nil }
func (d *device) SetCall(_ int, call *vhostuser.FD) error { return call.Signal() }
func (d *device) StopQueue(i int) (uint16, error)         { return d.base[i], nil }
func (d *device) Abandon()                                {}
func (d *device) Reset()                                  {}
func (d *device) StartQueue(i int, q vhostuser.QueueConfig) error {
	d.base[i] = q.Base
	return q.Call.Signal()
}

// later is a clock on which crashes lie far apart.
type later struct{ now time.Time }

func (c *later) Now() time.Time {
	c.now = c.now.Add(time.Hour)
	return c.now
}

func (c *later) After(time.Duration) <-chan time.Time { return make(chan time.Time) }

// process is a device process.
type process struct{ *exec.Cmd }

func (p process) Kill() { _ = p.Process.Kill() }

// TestKilledAtEachMessage: the device process is killed at each message of a driver's life, under a
// keeper, and the front end notices nothing.
func TestKilledAtEachMessage(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	front, back := Pair(t)
	socket, err := back.File()
	if err != nil {
		t.Fatal(err)
	}
	_ = back.Close()
	log := logrus.New()
	log.SetOutput(io.Discard)
	n := 0
	k := keeper.New(keeper.Config{Log: log, Clock: &later{},
		Start: func(control *os.File) (keeper.Child, error) {
			p := process{exec.Command(self)}
			p.Env = append(os.Environ(), lives+"=1")
			p.ExtraFiles, p.Stderr = []*os.File{control}, os.Stderr
			if n++; n == 1 {
				p.ExtraFiles = append(p.ExtraFiles, socket)
				defer socket.Close()
			}
			return p, p.Start()
		}})
	over := make(chan error, 1)
	go func() { over <- k.Run(context.Background()) }()
	f := NewFrontend(t, front)
	offered := f.Realize(2)
	f.MustSend(vhostuser.SetFeatures, Word(offered))
	g := vt.NewGuest(t, vt.Span{Size: 1 << 20}, vt.Span{Addr: 4 << 20, Size: 1 << 20})
	f.AddMemory(g)
	qs := []*Queue{NewQueue(t, g, 0, 8), NewQueue(t, g, 1, 8)}
	qs[1].Base = 5
	f.Start(qs...)
	fds := []unix.PollFd{{Fd: int32(qs[1].Call), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 5000); n != 1 {
		t.Errorf("no interrupt: %v", err)
	}
	isDropped(t, f)
	if b, err := f.Config(6); string(b) != "config" || err != nil {
		t.Errorf("the config space is %q, %v", b, err)
	}
	f.MustSend(vhostuser.RemMemReg, vhostuser.AppendRegion(Word(0), Regions(g)[1]))
	f.Stop(qs...)
	if qs[0].Base != 0 || qs[1].Base != 5 {
		t.Errorf("bases %d and %d, want 0 and 5", qs[0].Base, qs[1].Base)
	}
	f.MustSend(vhostuser.ResetDevice, nil) // at which nobody dies
	_ = front.Close()
	if err := <-over; err != nil {
		t.Errorf("the last process: %v", err)
	}
	if n != starts {
		t.Errorf("%d processes, want %d", n, starts)
	}
}

// isDropped: when a message was answered, nobody has the descriptors any more that aren't needed.
// QEMU sends nothing until a pipe ends through which the device's state goes.
func isDropped(t *testing.T, f *Frontend) {
	t.Helper()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	if err := f.Send(vhostuser.SetVringErr, Word(0), pipe[1]); err == nil {
		t.Error("a pipe is taken for an eventfd")
	}
	_ = unix.Close(pipe[1])
	end := []unix.PollFd{{Fd: int32(pipe[0])}}
	if n, err := unix.Poll(end, 5000); n != 1 {
		t.Errorf("a descriptor that isn't needed is still kept: %v", err)
	}
}

// child is Open's side of a connection to a keeper that keeps what a test says.
func child(t *testing.T, keep func(c *keeper.Client) error) (*Keeping, error) {
	t.Helper()
	k, _, err := children(t, keep)
	return k, err
}

// children is the same. If Open fails, it returns what the keeper has for yet another child, too.
func children(
	t *testing.T, keep func(c *keeper.Client) error,
) (k *Keeping, left map[uint32]int, opened error) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	n := 0
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	_ = keeper.New(keeper.Config{Log: log, Clock: &later{},
		Start: func(control *os.File) (keeper.Child, error) {
			fd, err := unix.FcntlInt(control.Fd(), unix.F_DUPFD_CLOEXEC, 3)
			if err != nil {
				return nil, err
			}
			f := fake(make(chan struct{}))
			n++
			go func(n int) {
				defer close(f)
				switch n {
				case 1:
					c, _, _, err := keeper.Open(fd)
					if err == nil {
						err = errors.Join(keep(c), c.Close())
					}
					opened = err
				case 2:
					if k, opened = Open(fd, log); opened == nil {
						stop()
					}
				default:
					var c *keeper.Client
					var err error
					if c, left, _, err = keeper.Open(fd); err == nil {
						_ = c.Close()
					}
					stop()
				}
			}(n)
			return f, nil
		}}).Run(ctx)
	for _, fd := range left {
		_ = unix.Close(fd)
	}
	return k, left, opened
}

// fake is a child that is a goroutine.
type fake chan struct{}

func (f fake) Kill() {}
func (f fake) Wait() error {
	<-f
	return nil
}

// TestStateIsNotBelieved: what a process has left that crashed in any way.
func TestStateIsNotBelieved(t *testing.T) {
	t.Parallel()
	words := func(v ...uint32) (b []byte) {
		for _, w := range v {
			b = little.AppendUint32(b, w)
		}
		return b
	}
	for _, tt := range []struct {
		state []byte
		want  string
	}{
		{words(1), "version"}, {words(2, 0), "version"}, {words(1, 1), "1 descriptors"},
		{words(1, 1<<31), "descriptors"}, {words(1, 1, 9), "9 isn't kept"},
		{words(1, 1, socketNumber), "2 isn't kept"},
		{words(1, 1, checkpointNumber), "1 isn't kept"},
		{words(1, 1, firstOwn), "2147483648 isn't kept"},
		{words(1, 2, 3, 3), "3 isn't kept, or is named twice"},
		{words(1, 2, 3, 0), "snapshot of 0 bytes"},
	} {
		k, left, err := children(t, func(c *keeper.Client) error {
			file, err := checkpoint.Create(room())
			if err != nil {
				return err
			}
			return errors.Join(file.Write(tt.state), c.Keep(checkpointNumber, file.FD()),
				c.Keep(socketNumber, 1), c.Keep(3, 1), c.Keep(firstOwn, 1), file.Close())
		})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("% x: %v, %v", tt.state, k, err)
		}
		if len(left) != 4 { // it may be a state for another version
			t.Errorf("% x: %d descriptors are left, want all 4", tt.state, len(left))
		}
	}
	for _, number := range []uint32{checkpointNumber, socketNumber} {
		if k, err := child(t, func(c *keeper.Client) error {
			return c.Keep(number, 1)
		}); !errors.Is(err, ErrState) && !errors.Is(err, checkpoint.ErrDamaged) {
			t.Errorf("no checkpoint: %v, %v", k, err)
		}
	}
}

// TestOwn: what the device keeps of its own doesn't hang on a state, and isn't to be named by one.
func TestOwn(t *testing.T) {
	t.Parallel()
	k, err := child(t, func(c *keeper.Client) error {
		file, err := checkpoint.Create(room())
		if err != nil {
			return err
		}
		return errors.Join(c.Keep(checkpointNumber, file.FD()), file.Close(),
			c.Keep(firstOwn, 1), c.Keep(firstOwn+7, 1), c.Keep(firstOwn+MaxOwn, 1))
	})
	if err != nil {
		t.Fatal(err)
	}
	own := k.Own()
	if len(own) != 2 || own[0] <= 2 || own[7] <= 2 || k.next != firstNumber {
		t.Errorf("the device's own are %v, the next number is %d", own, k.next)
	}
	for _, fd := range own {
		if err := unix.Close(fd); err != nil {
			t.Errorf("close a descriptor: %v", err)
		}
	}
	if again := k.Own(); len(again) != 0 {
		t.Errorf("taken twice: %v", again)
	}
	if k.KeepOwn(MaxOwn, 1) == nil || k.DropOwn(MaxOwn) == nil {
		t.Error("a number that the device doesn't have was taken")
	}
	_ = k.Close()
}
