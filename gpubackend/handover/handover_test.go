// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/fixed"
	"github.com/paracuda/paracuda/gpubackend/memword"
	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

func pair(t *testing.T) (*Conn, *Conn) {
	t.Helper()
	a, f, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestMessageWithFiles(t *testing.T) {
	a, b := pair(t)
	state, err := NewState()
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	sent := &Message{
		Kind: KindStart, GPU: "soft", Channel: 3, PID: 42, Comm: "program",
		Queue:  &Queue{Size: 256, Desc: 1 << 40, InFlight: []uint16{1, 9}},
		Policy: &Policy{SpinHostUs: 5},
		Files:  Files{Kick: true, State: true},
	}
	if err := a.Send(sent, []int{0, state.FD()}); err != nil {
		t.Fatal(err)
	}
	got, fds, err := b.Receive()
	if err != nil {
		t.Fatal(err)
	}
	n := got.Name(fds)
	if !reflect.DeepEqual(got, sent) || n.Kick < 0 || n.State < 0 || n.Call != -1 || n.Conn != -1 {
		t.Fatalf("received %+v, %+v", got, n)
	}
	other, err := OpenState(n.State)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	unix.Close(n.Kick)
	other.Take(7, 8)
	other.Take(255, 9)
	other.Give(7)
	other.Count(Kicks, 5)
	if state.Base() != 9 || !reflect.DeepEqual(state.InFlight(256), []uint16{255}) ||
		state.Counters()[Kicks] != 5 {
		t.Fatalf("state: base %d, in flight %v", state.Base(), state.InFlight(256))
	}
}

// TestFilesHaveTheirNames: each of a message's files comes out under the name it went in with.
func TestFilesHaveTheirNames(t *testing.T) {
	a, b := pair(t)
	var sent []int
	for range 5 + GateFiles + 1 + 3 + 2 {
		fd, err := unix.Eventfd(uint(len(sent)), unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, fd)
	}
	defer CloseFiles(sent)
	m := &Message{Kind: KindStart, Entry: 63, Files: Files{
		Kick: true, Call: true, State: true, Image: true, Log: true, Gate: true, Ledger: true,
		Lanes: 3, Memory: 2,
	}}
	if err := a.Send(m, sent); err != nil {
		t.Fatal(err)
	}
	got, fds, err := b.Receive()
	if err != nil {
		t.Fatal(err)
	}
	defer CloseFiles(fds)
	n := got.Name(fds)
	named := append([]int{n.Kick, n.Call, n.State, n.Image, n.Log}, n.Gate...)
	named = append(append(append(named, n.Ledger), n.Lanes...), n.Memory...)
	if got.Entry != 63 || !slices.Equal(named, fds) {
		t.Errorf("entry %d, files %v named %+v", got.Entry, fds, n)
	}
	if len(n.Gate) != GateFiles || len(n.Lanes) != 3 || len(n.Memory) != 2 {
		t.Errorf("gate %v, lanes %v, memory %v", n.Gate, n.Lanes, n.Memory)
	}
}

func TestWrongNumberOfFilesLeaksNone(t *testing.T) {
	a, b := pair(t)
	before := leaks.Descriptors(t)
	for range 100 {
		if err := a.Send(&Message{Kind: KindCall, Files: Files{Call: true}},
			[]int{0, 0}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Receive(); err == nil {
			t.Fatal("two files where one was announced")
		}
	}
	// What an earlier test has left to the collector may be closed meanwhile.
	if after := leaks.Descriptors(t); after > before {
		t.Fatalf("%d open files, %d before", after, before)
	}
}

// TestSendNowDoesNotWait: for a peer that doesn't read, nor for another Send.
func TestSendNowDoesNotWait(t *testing.T) {
	a, b := pair(t)
	n := 0
	for a.SendNow(&Message{Kind: KindCall}, nil) == nil {
		if n++; n > 1<<16 {
			t.Fatal("no socket has room for so many messages")
		}
	}
	waits := make(chan error)
	go func() { waits <- a.Send(&Message{Kind: KindCall}, nil) }()
	for range 100 {
		if err := a.SendNow(&Message{Kind: KindCall}, nil); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("no room, one waits: error %v", err)
		}
		time.Sleep(time.Millisecond)
	}
	for range n + 1 {
		if _, _, err := b.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
	if err := a.SendNow(&Message{Kind: KindStop}, nil); err != nil {
		t.Error(err)
	}
	if m, _, err := b.Receive(); err != nil || m.Kind != KindStop {
		t.Errorf("%v, %v", m, err)
	}
}

// TestStateOfWhatIsFixed: the numbers arrive, go again, and are in nobody's way.
func TestStateOfWhatIsFixed(t *testing.T) {
	s, err := NewState()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var all fixed.Counts
	for k := range all {
		all[k] = uint64(k) + 1
	}
	s.SetFixed(&all)
	if s.Fixed() != all || len(s.InFlight(maxHeads)) != 0 || s.Base() != 0 ||
		s.Counters() != (Counters{}) {
		t.Errorf("%v, heads %d, counters %v", s.Fixed(), s.InFlight(maxHeads), s.Counters())
	}
	s.SetFixed(&fixed.Counts{})
	if s.Fixed() != (fixed.Counts{}) {
		t.Errorf("%v, and there is nothing", s.Fixed())
	}
}

func TestStateSurvivesItsWorker(t *testing.T) {
	s, err := NewState()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := unix.Ftruncate(s.FD(), 0); err == nil {
		t.Fatal("a worker can cut the state short")
	}
	s.Take(40000, 1) // a head that no queue has
}

// TestStateOfOneThatHasDoneNothing: it says so until it serves, and what it returned shows.
func TestStateOfOneThatHasDoneNothing(t *testing.T) {
	s, err := NewState()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.AskCold(); !s.AskedCold() {
		t.Error("it doesn't ask")
	}
	if s.Serves(); s.AskedCold() {
		t.Error("it serves, and asks")
	}
	s.SetBase(0xffff)
	if !s.ReturnedNone(0xffff) || s.ReturnedNone(0xfffe) {
		t.Error("it has taken something")
	}
	s.Take(3, 0)
	s.Take(5, 1)
	if !s.ReturnedNone(0xffff) {
		t.Error("it has returned something")
	}
	s.Giving(3, 0)
	if s.Give(3); s.ReturnedNone(0xffff) {
		t.Error("it has returned nothing")
	}
}

// TestStateInTheMiddle: a worker that is killed within Take has taken the head, and its base is
// behind it.
func TestStateInTheMiddle(t *testing.T) {
	s, err := NewState()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Take(3, 1)
	*memword.Of64(s.mem[baseOffset:]) = noted(5, 2)
	if heads := s.InFlight(8); !slices.Equal(heads, []uint16{3, 5}) || s.Base() != 2 {
		t.Fatalf("heads %d, base %d", heads, s.Base())
	}
	s.Take(5, 2)
	s.Giving(5, 65535)
	if head, used, ok := s.Given(); head != 5 || used != 65535 || !ok {
		t.Fatalf("head %d at %d, %t", head, used, ok)
	}
	s.Give(5)
	if _, _, ok := s.Given(); ok || !slices.Equal(s.InFlight(8), []uint16{3}) {
		t.Fatalf("heads %d afterwards", s.InFlight(8))
	}
}

func TestMemoryIsDescribedOnce(t *testing.T) {
	fd, err := unix.MemfdCreate("memory", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 1<<16); err != nil {
		t.Fatal(err)
	}
	regions, files := Describe([]guestmem.Region{
		{GuestAddr: 0, Size: 1 << 15, FD: fd},
		{GuestAddr: 1 << 20, Size: 1 << 15, FD: fd, FileOffset: 1 << 15},
	})
	if len(files) != 1 || len(regions) != 2 {
		t.Fatalf("%d files for one, %d regions", len(files), len(regions))
	}
	dup, _ := unix.Dup(fd)
	m := Message{Memory: regions}
	mem, err := m.Map([]int{dup})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	if err := mem.Write([]byte("x"), 1<<20); err != nil {
		t.Fatal(err)
	}
	m.Memory[1].File = 1
	dup, _ = unix.Dup(fd)
	if _, err := m.Map([]int{dup}); err == nil {
		t.Fatal("a region of a file that is not there")
	}
}

// TestNumberedMemory: a memory without files is described by numbers, and known by them.
func TestNumberedMemory(t *testing.T) {
	region := guestmem.Region{GuestAddr: 1 << 20, Size: 8192, FD: 20000, FileOffset: 4096}
	for readFD, want := range map[int]int{30000: 30000, 0: 20000} { // 0: it isn't told
		m := &Message{Kind: KindGuest, Memory: DescribeNumbered([]guestmem.Numbered{
			{Region: region, ReadFD: readFD, Piece: 4096, ShrinkSealed: true}})}
		mem, err := m.Map(nil)
		if err != nil {
			t.Fatal(err)
		}
		got := mem.Numbered()
		if len(got) != 1 || got[0] != (guestmem.Numbered{Region: region, ReadFD: want, Piece: 4096,
			ShrinkSealed: true}) {
			t.Errorf("%+v", got)
		}
		if err := mem.Close(); err != nil {
			t.Error(err)
		}
	}
}
