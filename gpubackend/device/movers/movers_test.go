// SPDX-License-Identifier: Apache-2.0

package movers

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const (
	soon   = time.Minute
	little = 100 * time.Millisecond
)

// fake is a mover that notes the messages that it gets.
type fake struct {
	conn    *handover.Conn
	refuses handover.Kind // has no answer; a wrong one if it is the start

	protocol int           // that it speaks
	stays    chan struct{} // it ends with this; nil: when it is killed
	killed   chan struct{}
	once     sync.Once
	told     chan handover.Kind
	done     chan struct{}
}

func (f *fake) Kill() {
	f.once.Do(func() {
		close(f.killed)
		if f.stays == nil {
			_ = f.conn.Close()
			return
		}
		go func() { // what hangs keeps its files
			<-f.stays
			_ = f.conn.Close()
		}()
	})
}

func (f *fake) Wait() error {
	<-f.done
	return nil
}

var answers = map[handover.Kind]handover.Kind{
	handover.KindStart: handover.KindReady, handover.KindMemory: handover.KindDone,
	handover.KindLog: handover.KindLogged, handover.KindStop: handover.KindStopped,
	handover.KindTakeOver: handover.KindStands,
}

func (f *fake) serve() {
	defer close(f.done)
	for {
		m, fds, err := f.conn.Receive()
		handover.CloseFiles(fds)
		if err != nil {
			break
		}
		f.told <- m.Kind
		answer := answers[m.Kind]
		if m.Kind == f.refuses {
			answer = map[handover.Kind]handover.Kind{handover.KindStart: handover.KindDone}[m.Kind]
		}
		if answer != "" {
			m := &handover.Message{Kind: answer, Turn: m.Turn}
			if answer == handover.KindStands {
				m.Standing = &handover.Standing{Protocol: f.protocol}
			}
			_ = f.conn.Send(m, nil)
		}
		if answer == handover.KindStopped {
			f.Kill()
		}
	}
	<-f.killed
	if f.stays != nil {
		<-f.stays
	}
}

// vm has movers, each of which is a fake.
type vm struct {
	*Movers
	t               *testing.T
	refuses         handover.Kind
	protocol        int
	stays           chan struct{}
	made            []*fake
	bad             error
	ended, unmarked atomic.Int32
	ending          atomic.Int32
	serving, over   atomic.Int32 // noted for a process after this one, and no more
	running         await.Crowd
}

func newVM(t *testing.T) *vm {
	v := &vm{t: t, protocol: handover.Protocol}
	log := logrus.New()
	log.SetOutput(io.Discard)
	v.Movers = New(Config{
		Spawn: v.spawn, Log: logrus.NewEntry(log),
		Go:       func(_ string, f func()) { v.running.Go(f) },
		Unmarked: func() { v.unmarked.Add(1) },
		Ending:   func(*Mover) { v.ending.Add(1) },
		Ended:    func() { v.ended.Add(1) },
		Serves:   func(child.Process, *child.Conn) { v.serving.Add(1) },
		Over:     func(child.Process) { v.over.Add(1) },
		Start:    soon, Answer: soon, Stop: soon, Exit: soon,
	})
	t.Cleanup(func() {
		v.Kill()
		if !await.Within(soon, v.running.Gone()) {
			t.Error("something goes on")
		}
	})
	return v
}

// newHastyVM makes a VM that doesn't wait long for movers that don't obey.
func newHastyVM(t *testing.T) *vm {
	v := newVM(t)
	v.config.Answer, v.config.Stop, v.config.Exit = little, little, little
	return v
}

func (v *vm) spawn(control *os.File) (child.Process, error) {
	if v.bad != nil {
		return nil, v.bad
	}
	fd, err := unix.FcntlInt(control.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	conn, err := handover.NewConn(os.NewFile(uintptr(fd), "fake"))
	if err != nil {
		return nil, err
	}
	f := &fake{conn: conn, protocol: v.protocol, refuses: v.refuses, stays: v.stays,
		killed: make(chan struct{}), done: make(chan struct{}), told: make(chan handover.Kind, 16)}
	v.made = append(v.made, f)
	go f.serve()
	return f, nil
}

func start() (*handover.Message, []int) { return &handover.Message{Kind: handover.KindStart}, nil }

func memory() (*handover.Message, []int) {
	return &handover.Message{Kind: handover.KindMemory}, nil
}

// need gets a mover that is ready.
func (v *vm) need() *Mover {
	v.t.Helper()
	m, err := v.Need(start, v.Kills())
	if err != nil {
		v.t.Fatal(err)
	}
	if again, err := v.Await(m); again || err != nil {
		v.t.Fatalf("again %v, %v", again, err)
	}
	return m
}

// mustBeTold fails the test unless the newest mover has got these messages.
func (v *vm) mustBeTold(want ...handover.Kind) {
	v.t.Helper()
	f := v.made[len(v.made)-1]
	for _, kind := range want {
		select {
		case got := <-f.told:
			if got != kind {
				v.t.Fatalf("told %q, want %q", got, kind)
			}
		case <-time.After(soon):
			v.t.Fatalf("not told %q", kind)
		}
	}
}

func TestOneMoverServesAll(t *testing.T) {
	v := newVM(t)
	if _, err := v.Connect(v.Current(), 0, 0); !errors.Is(err, ErrNotReady) {
		t.Errorf("connected to no mover: %v", err)
	}
	v.Tell(func() (*handover.Message, []int) {
		t.Error("the memory is described for nobody")
		return memory()
	})
	m := v.need()
	if v.need() != m || len(v.made) != 1 {
		t.Errorf("%d movers were started", len(v.made))
	}
	for range 2 {
		worker, err := v.Connect(m, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		worker.Close()
	}
	v.Tell(memory)
	v.TellLog(func() (*handover.Message, []int) {
		return &handover.Message{Kind: handover.KindLog}, nil
	})
	v.mustBeTold(handover.KindStart, handover.KindAttach, handover.KindAttach,
		handover.KindMemory, handover.KindLog)
	if v.Current() != m {
		t.Error("a mover that obeys was ended")
	}
}

func TestMoverThatCannotStart(t *testing.T) {
	v := newVM(t)
	v.bad = errors.New("no process")
	if _, err := v.Need(start, 0); !errors.Is(err, v.bad) {
		t.Fatalf("%v", err)
	}
	v.bad, v.refuses = nil, handover.KindStart
	m, err := v.Need(start, 0)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := v.Await(m); again || err == nil || !m.Failed() {
		t.Fatalf("again %v, %v", again, err)
	}
	v.refuses = ""
	if v.need() == m {
		t.Error("one that could not start is asked again")
	}
}

// TestStop: a mover that obeys stops in order, one that doesn't is killed. Nobody gets a mover that
// stops.
func TestStop(t *testing.T) {
	for _, refuses := range []handover.Kind{"", handover.KindStop} {
		v := newVM(t)
		if refuses != "" {
			v = newHastyVM(t)
		}
		v.refuses = refuses
		m := v.need()
		stop := v.BeginStop()
		if stop == nil || v.BeginStop() != nil {
			t.Fatal("a mover stops once")
		}
		if _, err := v.Connect(v.Current(), 0, 0); !errors.Is(err, ErrNotReady) {
			t.Errorf("connected to one that stops: %v", err)
		}
		stop()
		if !await.Closed(m.Exited()) {
			t.Error("it has not stopped")
		}
		if v.need() == m {
			t.Error("one that stopped was given out")
		}
		if killed := v.unmarked.Load() == 1; killed != (refuses != "") {
			t.Errorf("refuses %q: %v that it can't say what it wrote", refuses, killed)
		}
	}
}

// TestOneThatStopsIsNotWaitedFor: a mover that is to stop before it is ready is killed.
func TestOneThatStopsIsNotWaitedFor(t *testing.T) {
	v := newVM(t)
	m := v.need()
	if v.BeginStop() == nil {
		t.Fatal("there is no mover")
	}
	if again, err := v.Await(m); !again || err != nil || !await.Closed(m.Exited()) {
		t.Errorf("again %v, %v", again, err)
	}
}

// TestLingering: a mover that doesn't end isn't the VM's mover any more, and is known until it has
// ended.
func TestLingering(t *testing.T) {
	v := newHastyVM(t)
	stays := make(chan struct{})
	v.refuses, v.stays = handover.KindMemory, stays
	m := v.need()
	v.Tell(memory) // isn't answered
	ends := v.Lingering()
	if len(ends) != 1 || v.Current() != nil || v.ended.Load() != 0 {
		t.Fatalf("%d linger, %d ended", len(ends), v.ended.Load())
	}
	v.End(m)
	if n := len(v.Lingering()); n != 1 {
		t.Errorf("one lingers %d times", n)
	}
	v.refuses, v.stays = "", nil
	other := v.need()
	close(stays)
	<-ends[0]
	if n := len(v.Lingering()); n != 0 {
		t.Errorf("%d linger that have ended", n)
	}
	for end := time.Now().Add(soon); v.ended.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody is told of its end")
		}
	}
	if v.Current() != other {
		t.Error("the end of another one ended the mover")
	}
}

// TestKilledOneServesNobody: a mover that was killed serves nobody, even if it doesn't end. Another
// one is started, and the workers that had the first are told.
func TestKilledOneServesNobody(t *testing.T) {
	for _, givenUp := range []bool{false, true} {
		v := newHastyVM(t)
		v.stays = make(chan struct{})
		m := v.need()
		v.Kill()
		if f, err := v.Connect(m, 0, 0); err == nil {
			f.Close()
			t.Error("a worker gets a mover that was killed")
		}
		if givenUp {
			v.GiveUp()
		} else if again, err := v.Await(m); !again || err != nil || v.ending.Load() != 1 {
			t.Errorf("again %v, %v, told %d times", again, err, v.ending.Load())
		}
		if len(v.Lingering()) != 1 || v.Current() != nil {
			t.Errorf("%d linger, and the mover is %v", len(v.Lingering()), v.Current())
		}
		end := v.stays
		v.stays = nil
		other := v.need()
		v.GiveUp()
		if f, err := v.Connect(other, 0, 0); err != nil || v.Current() != other {
			t.Errorf("the next one: %v", err)
		} else {
			f.Close()
		}
		close(end)
	}
}

// TestLeft: the movers of an earlier device process are killed, and awaited for a while.
func TestLeft(t *testing.T) {
	v := newHastyVM(t)
	near, remote, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	defer remote.Close()
	v.stays = make(chan struct{})
	p, err := v.spawn(remote)
	if err != nil {
		t.Fatal(err)
	}
	v.EndLeft([]child.Process{p})
	if v.AwaitLeft(nil) || len(v.Lingering()) != 1 {
		t.Error("one that stays is gone")
	}
	quit := make(chan struct{})
	close(quit)
	if v.AwaitLeft(quit) {
		t.Error("one that stays is gone")
	}
	close(v.stays)
	<-v.leftGone
	if !v.AwaitLeft(quit) || len(v.Lingering()) != 0 || v.ended.Load() != 1 {
		t.Error("one that has ended isn't gone")
	}
	other := newVM(t)
	other.EndLeft(nil)
	if !other.AwaitLeft(quit) {
		t.Error("nobody is awaited")
	}
}

// TestTakeOver: the earlier device process's mover is the VM's as soon as it has told its state.
// One with another protocol, or a dead one, isn't.
func TestTakeOver(t *testing.T) {
	for _, protocol := range []int{handover.Protocol, handover.Protocol + 1, -1} {
		v := newVM(t)
		v.protocol = protocol
		near, remote, err := handover.Pair()
		if err != nil {
			t.Fatal(err)
		}
		p, err := v.spawn(remote)
		if err != nil {
			t.Fatal(err)
		}
		_ = remote.Close()
		f := v.made[0]
		if protocol < 0 {
			f.Kill()
		}
		v.TakeOver(p, near)
		m := v.Current()
		if m == nil {
			<-f.done
			continue
		}
		again, err := v.Await(m)
		if again || (err == nil) != (protocol == handover.Protocol) {
			t.Errorf("protocol %d: again %t, %v", protocol, again, err)
		}
		if err == nil {
			v.mustBeTold(handover.KindTakeOver)
			worker, err := v.Connect(m, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			worker.Close()
			v.mustBeTold(handover.KindAttach)
			if v.need() != m {
				t.Error("another mover is started")
			}
			v.Kill()
		}
		<-m.Exited()
		if v.serving.Load() != 0 || v.over.Load() != 1 {
			t.Errorf("noted %d times, and %d times no more", v.serving.Load(), v.over.Load())
		}
	}
}
