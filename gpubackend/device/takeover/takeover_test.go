// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/keeper/keepertest"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/roster"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// process is one device process, with what it has from the one before.
type process struct {
	*Notes
	remains *remains.Remains
	store   keepertest.Store
	t       *testing.T
	ends    []func()
	states  map[int]*handover.State // of the workers of each channel
}

// next is the process after another.
func next(t *testing.T, s keepertest.Store) *process {
	t.Helper()
	r, _, err := remains.New(s, s.Given(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(r)
	if err != nil {
		t.Fatal(err)
	}
	return &process{Notes: n, remains: r, store: s, t: t, states: map[int]*handover.State{}}
}

// end is its death.
func (p *process) end() {
	p.t.Helper()
	if err := p.remains.Err(); err != nil {
		p.t.Error(err)
	}
	for _, f := range p.ends {
		f()
	}
	p.Close()
	p.remains.Close()
}

// deaf is the channel of a worker whose mappings nobody decides on.
const deaf = 3

// serve starts a child, which is a number and the other end of a connection.
func (p *process) serve(c roster.Child, number uint32) *handover.Conn {
	p.t.Helper()
	near, far, err := handover.Pair()
	if err != nil {
		p.t.Fatal(err)
	}
	other, err := handover.NewConn(far)
	if err != nil {
		p.t.Fatal(err)
	}
	conn := child.New(near, 0, child.RefuseOffer, func(f func()) { go f() })
	if c.Role == roster.Worker {
		state, err := handover.NewState()
		if err != nil {
			p.t.Fatal(err)
		}
		p.remains.Keep(remains.State(c.Channel), state.FD())
		state.SetBase(uint16(number))
		p.states[c.Channel] = state
		p.ends = append(p.ends, state.Close)
		p.listens(c.Channel, func(f func(fd int)) {
			if c.Channel != deaf {
				f(state.FD()) // any file will do
			}
		})
	}
	p.serves(c, running(number), conn)
	p.ends = append(p.ends, func() { near.Close() })
	p.t.Cleanup(func() { other.Close(); conn.Close() })
	return other
}

// running is a process with a number.
type running uint32

func (running) Kill()            {}
func (running) Wait() error      { return nil }
func (n running) Number() uint32 { return uint32(n) }

// nameless is one that the starter process doesn't know.
type nameless struct{}

func (nameless) Kill()       {}
func (nameless) Wait() error { return nil }

func quiet() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return logrus.NewEntry(log)
}

// drop closes what was found.
func (l *Left) drop() {
	for _, w := range l.Workers {
		w.Conn.Close()
		w.State.Close()
		handover.CloseFiles([]int{w.Listener})
	}
	if l.Mover != nil {
		l.Mover.Conn.Close()
	}
}

func (l *Left) rest() (numbers []uint32) {
	for _, p := range l.Rest {
		n, _ := numberOf(p)
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

// TestFind finds those that serve and still run, process after process, by their own connections.
func TestFind(t *testing.T) {
	t.Parallel()
	s := keepertest.Store{}
	p := next(t, s)
	if left := p.Find(nil, 4, quiet()); left.Workers != nil || left.Mover != nil ||
		left.Rest != nil {
		t.Errorf("the first process finds %+v", left)
	}
	worker := roster.Child{Role: roster.Worker, Channel: 2, PID: 7, Name: "train", Entry: 3,
		Base: 9}
	p.serve(worker, 10) // another one gets the channel
	p.serve(roster.Child{Role: roster.Worker, Channel: 1, Entry: 1}, 11)
	p.serve(roster.Child{Role: roster.Worker, Channel: 3, Entry: 4}, 12)
	p.serve(roster.Child{Role: roster.Mover}, 13)
	theirs := p.serve(worker, 14)
	mover := p.serve(roster.Child{Role: roster.Mover}, 15)
	p.Ended(running(11))
	p.Ended(running(99))
	p.Ended(nameless{})
	p.end()
	for range 3 {
		p = next(t, s)
		all := []child.Process{running(10), running(11), running(14), running(13), running(15),
			running(16), nameless{}}
		left := p.Find(all, 4, quiet())
		if len(left.Workers) != 1 || left.Mover == nil ||
			!slices.Equal(left.rest(), []uint32{0, 10, 11, 13, 16}) {
			t.Fatalf("%+v, rest %v", left, left.rest())
		}
		w := &left.Workers[0]
		want := worker
		if want.Number = 14; w.Child != want || w.Proc != running(14) || w.State.Base() != 14 {
			t.Errorf("%+v at %d, want %+v", w.Child, w.State.Base(), want)
		}
		if w.Listener < 0 {
			t.Error("nobody can decide on its mappings")
		}
		for _, c := range []struct{ mine, theirs *handover.Conn }{
			{w.Conn, theirs}, {left.Mover.Conn, mover},
		} {
			if err := c.mine.Send(&handover.Message{Kind: handover.KindSync}, nil); err != nil {
				t.Error(err)
			}
			if m, _, err := c.theirs.Receive(); err != nil || m.Kind != handover.KindSync {
				t.Errorf("%+v, %v", m, err)
			}
		}
		left.drop()
		p.end()
	}
	// Of what ended meanwhile nothing is left.
	p = next(t, s)
	left := p.Find(nil, 4, quiet())
	if left.Workers != nil || left.Mover != nil || left.Rest != nil {
		t.Errorf("%+v", left)
	}
	p.end()
	if got := places(s); !slices.Equal(got, []remains.Purpose{0, remains.Roster, remains.State(1),
		remains.State(2), remains.State(3)}) {
		t.Errorf("%v are kept", got)
	}
	for number := range s {
		_ = s.DropOwn(number)
	}
}

func places(s keepertest.Store) (all []remains.Purpose) {
	for number := range s {
		all = append(all, remains.Purpose(number))
	}
	slices.SortFunc(all, func(a, b remains.Purpose) int { return cmp.Compare(a, b) })
	return all
}

// TestDeaf: a worker without listener doesn't get the one of its predecessor.
func TestDeaf(t *testing.T) {
	t.Parallel()
	s := keepertest.Store{}
	defer s.Close()
	p := next(t, s)
	c := roster.Child{Role: roster.Worker, Channel: deaf}
	p.listens(deaf, func(f func(fd int)) { f(0) })
	p.serve(c, 5)
	p.end()
	p = next(t, s)
	left := p.Find([]child.Process{running(5)}, 4, quiet())
	if len(left.Workers) != 1 || left.Workers[0].Listener != -1 {
		t.Errorf("%+v", left)
	}
	left.drop()
	p.end()
}

// TestIncomplete: a child of which something is missing ends, and its queue's note stays.
func TestIncomplete(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s keepertest.Store){
		"connection": func(s keepertest.Store) { _ = s.DropOwn(uint32(remains.Worker(1))) },
		"note":       func(s keepertest.Store) { _ = s.DropOwn(uint32(remains.State(1))) },
		"no note": func(s keepertest.Store) {
			fd, _ := unix.MemfdCreate("other", unix.MFD_CLOEXEC)
			_ = s.KeepOwn(uint32(remains.State(1)), fd)
			unix.Close(fd)
		},
		"no connection": func(s keepertest.Store) {
			fd, _ := unix.MemfdCreate("other", unix.MFD_CLOEXEC)
			_ = s.KeepOwn(uint32(remains.Worker(1)), fd)
			unix.Close(fd)
		},
		"channel": func(s keepertest.Store) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := keepertest.Store{}
			p := next(t, s)
			p.serve(roster.Child{Role: roster.Worker, Channel: 1}, 5)
			p.end()
			if _, kept := s[uint32(remains.Listener(1))]; !kept {
				t.Error("no listener is kept")
			}
			spoil(s)
			channels := 2
			if name == "channel" {
				channels = 1
			}
			p = next(t, s)
			left := p.Find([]child.Process{running(5)}, channels, quiet())
			if left.Workers != nil || !slices.Equal(left.rest(), []uint32{5}) {
				t.Errorf("%+v", left)
			}
			if _, kept := s[uint32(remains.Listener(1))]; kept {
				t.Error("its listener is kept")
			}
			_, kept := s[uint32(remains.Worker(1))]
			_, noted := s[uint32(remains.State(1))]
			if kept || noted != (name != "note") {
				t.Errorf("connection kept: %t, note: %t", kept, noted)
			}
			p.end()
			for number := range s {
				_ = s.DropOwn(number)
			}
		})
	}
}

func TestWithoutAKeeper(t *testing.T) {
	t.Parallel()
	n, err := Open(nil)
	if n != nil || err != nil {
		t.Fatal(n, err)
	}
	left := n.Find([]child.Process{running(1)}, 1, quiet())
	if len(left.Rest) != 1 || left.Workers != nil {
		t.Errorf("%+v", left)
	}
	n.serves(roster.Child{}, running(1), nil)
	n.AwaitsCold(running(1))
	n.Ended(running(1))
	n.Close()
}

// TestSuccessors: of a worker that is gone and has done nothing for its program, the next process
// finds that, process after process, until a successor serves. Otherwise its queue's notes stay.
func TestSuccessors(t *testing.T) {
	t.Parallel()
	worker := roster.Child{Role: roster.Worker, Channel: 1, PID: 7, Name: "train", Base: 5,
		Ahead: true}
	for name, test := range map[string]struct {
		note  func(p *process, s *handover.State)
		lives bool
		cold  bool
	}{
		"asked":                  {note: asked, cold: true},
		"asked, and was noticed": {note: noticed, cold: true},
		"is said to be gone":     {note: noticed, lives: true, cold: true},
		"crashed":                {note: func(*process, *handover.State) {}},
		"returned a chain": {note: func(_ *process, s *handover.State) {
			s.AskCold()
			s.SetBase(6)
		}},
		"serves": {note: func(*process, *handover.State) {}, lives: true},
		"has no notes": {note: func(p *process, s *handover.State) {
			p.drop(t, remains.State(1))
		}},
		"has bad notes": {note: func(p *process, s *handover.State) { p.spoil(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := keepertest.Store{}
			p := next(t, s)
			p.serve(worker, 5)
			test.note(p, p.states[1])
			p.end()
			var alive []child.Process
			if test.lives {
				alive = append(alive, running(5))
			}
			for range 3 {
				p = next(t, s)
				left := p.Find(alive, 2, quiet())
				want := worker
				want.Number, want.Cold = 5, true
				if (len(left.Cold) == 1) != test.cold || test.cold && left.Cold[0] != want ||
					(len(left.Workers) == 1) != (test.lives && !test.cold) ||
					(len(left.Rest) == 1) != (test.lives && test.cold) {
					t.Errorf("%+v", left)
				}
				left.drop()
				p.end()
			}
			if _, kept := s[uint32(remains.State(1))]; kept == (name == "has no notes") {
				t.Errorf("notes kept: %t", kept)
			}
			p = next(t, s)
			p.Find(nil, 2, quiet())
			p.serve(worker, 6)
			p.end()
			p = next(t, s)
			left := p.Find([]child.Process{running(6)}, 2, quiet())
			if len(left.Workers) != 1 || left.Cold != nil {
				t.Errorf("a successor serves: %+v", left)
			}
			left.drop()
			p.end()
			for number := range s {
				_ = s.DropOwn(number)
			}
		})
	}
}

// asked has a worker ask for a successor.
func asked(_ *process, s *handover.State) { s.AskCold() }

// noticed notes that a worker which has asked for a successor is gone.
func noticed(p *process, s *handover.State) {
	s.AskCold()
	p.AwaitsCold(running(5))
}

func (p *process) drop(t *testing.T, what remains.Purpose) {
	t.Helper()
	if err := p.store.DropOwn(uint32(what)); err != nil {
		t.Fatal(err)
	}
}

// spoil replaces what a worker noted by another file.
func (p *process) spoil(t *testing.T) {
	t.Helper()
	fd, err := unix.MemfdCreate("other", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := p.store.KeepOwn(uint32(remains.State(1)), fd); err != nil {
		t.Fatal(err)
	}
}
