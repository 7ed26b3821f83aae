// SPDX-License-Identifier: Apache-2.0

package opening

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child/childtest"
	"github.com/paracuda/paracuda/gpubackend/device/control"
	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/lanes"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// TestOpen: a worker gets all that it needs, and its channel is taken.
func TestOpen(t *testing.T) {
	r := newRig(t)
	r.start(0)
	r.mustOpen(0, wire.StatusOk)
	w := r.Channels.Worker(0)
	if w == nil || w.String() != "prog (pid 9)" || w.Ahead {
		t.Fatalf("%v has the channel", w)
	}
	m := r.gave()[0]
	if m.GPU != "soft" || m.PID != 9 || m.Comm != "prog" || m.Queue.Size != r.driver.Size ||
		len(m.Memory) != 1 || !m.Files.State || m.Files.Conn || m.Saved || m.Held ||
		*m.Policy != r.Settings.Now().Policy {
		t.Errorf("it got %+v", m)
	}
	r.mustOpen(0, wire.StatusBusy)
	if len(r.gave()) != 1 {
		t.Error("another worker was started")
	}
	r.Channels.Close(0)
	r.mustOpen(0, wire.StatusOk)
}

// TestNotOpened: what a guest asks for in vain, and why.
func TestNotOpened(t *testing.T) {
	r := newRig(t, "processes=1")
	r.mustOpen(0, wire.StatusBadRequest) // its queue doesn't run
	r.start(0)
	r.start(1)
	gone := make(chan struct{})
	close(gone)
	if s := r.Open(0, 9, "", control.Asking{Dropped: gone}); s != wire.StatusBadRequest {
		t.Errorf("status %d of a driver that is gone", s)
	}
	r.Saved = func(channel int) bool { return channel == 0 }
	r.mustOpen(0, wire.StatusBusy)
	r.Saved = func(int) bool { return false }
	r.mustOpen(0, wire.StatusOk)
	r.mustOpen(1, wire.StatusBusy) // there is one process already
	if err := r.Settings.Set("processes=2"); err != nil {
		t.Fatal(err)
	}
	r.left = true
	r.mustOpen(1, wire.StatusNoWorker)
}

// TestStartsThatWait end with the control queue.
func TestStartsThatWait(t *testing.T) {
	r := newRig(t)
	r.start(0)
	r.Starts.SetRate(1e-6)
	for range Burst {
		r.Starts.Take()
	}
	quit := make(chan struct{})
	answer := make(chan uint32)
	go func() { answer <- r.Open(0, 9, "", control.Asking{Quit: quit}) }()
	select {
	case s := <-answer:
		t.Fatalf("status %d before its turn", s)
	case <-time.After(20 * time.Millisecond):
	}
	close(quit)
	if s := <-answer; s != wire.StatusNoWorker {
		t.Fatalf("status %d", s)
	}
}

// TestBadWorkers: one that doesn't take its channel is ended, and the channel is free.
func TestBadWorkers(t *testing.T) {
	r := newRig(t)
	r.start(0)
	for name, script := range map[string]func(*childtest.Child){
		"dies": func(c *childtest.Child) { _, _ = c.Receive() },
		"refuses": func(c *childtest.Child) {
			_, _ = c.Receive()
			_ = c.Conn.Send(&handover.Message{Kind: handover.KindReady, Error: "no"}, nil)
			<-c.Killed
		},
		"dies as it says that it serves": func(c *childtest.Child) {
			_, _ = c.Receive()
			_ = c.Conn.Send(&handover.Message{Kind: handover.KindDone}, nil)
		},
	} {
		r.play(script)
		if s := r.Open(0, 9, "", control.Asking{}); s != wire.StatusNoWorker ||
			r.Channels.Worker(0) != nil {
			t.Errorf("one that %s: status %d", name, s)
		}
	}
	r.play(r.noting)
	r.mustOpen(0, wire.StatusOk)
}

// TestWarmWorkers serve, unless they can't: then a cold one does.
func TestWarmWorkers(t *testing.T) {
	r := newRig(t, "warm-workers=1")
	r.start(0)
	r.Ahead.DriverCame()
	all := r.awaitWarm()
	r.mustOpen(0, wire.StatusOk)
	if w := r.Channels.Worker(0); w != all[0] {
		t.Fatal("another worker serves")
	}
	all = r.awaitWarm() // another one, in its place
	r.mustOpen(0, wire.StatusBusy)
	if again := r.awaitWarm(); again[0] != all[0] {
		t.Fatal("a channel that is busy takes a warm worker")
	}
	r.Channels.Close(0)
	if err := r.Settings.Set("batch-commands=7"); err != nil { // of which nobody has told the pool
		t.Fatal(err)
	}
	r.mustOpen(0, wire.StatusOk)
	if w := r.Channels.Worker(0); w.Ahead || !await.Within(soon, all[0].Gone()) {
		t.Fatal("a worker serves that was started with another policy")
	}
	r.Channels.Close(0)
	r.play(func(c *childtest.Child) { // becomes warm, and takes no channel
		_, _ = c.Receive()
		_ = c.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
		_, _ = c.Receive()
	})
	r.Ahead.Empty()
	r.Ahead.Refill()
	r.awaitWarm()
	r.play(r.noting)
	r.mustOpen(0, wire.StatusOk)
	if w := r.Channels.Worker(0); w.Ahead {
		t.Fatal("a warm worker serves that took no channel")
	}
}

// TestMemoryIsTold: a worker that confines itself after its start gets the guest's memory later.
// One that has done so ahead of use gets it at once.
func TestMemoryIsTold(t *testing.T) {
	for _, ahead := range []bool{true, false} {
		r := newRig(t, "warm-workers=1")
		r.Asks = true
		r.start(0)
		got := make(chan *handover.Message, 1)
		r.play(func(c *childtest.Child) {
			if ahead {
				_, _ = c.Receive()
				said := &handover.Message{Kind: handover.KindConfined, Error: "no"}
				_ = c.Conn.Send(said, nil)
				_ = c.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
			}
			m, fds, _ := c.Conn.Receive()
			handover.CloseFiles(fds)
			got <- m
			_ = c.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
			_, _ = c.Receive()
		})
		if ahead {
			r.Ahead.DriverCame()
			r.awaitWarm()
		}
		r.mustOpen(0, wire.StatusOk)
		if m := <-got; m.Kind != handover.KindStart || m.Asks == ahead ||
			(m.Files.Memory > 0) != ahead || (len(m.Memory) > 0) != ahead {
			t.Errorf("ahead of use: %t: it gets %+v", ahead, m)
		}
	}
}

// TestCold: a warm worker that doesn't suit its program is followed by a cold one, and if that
// can't start, the queue goes back.
func TestCold(t *testing.T) {
	r := newRig(t, "warm-workers=1")
	r.start(0)
	r.Ahead.DriverCame()
	leave := func() {
		t.Helper()
		r.mustOpen(0, wire.StatusOk)
		w := r.Channels.Worker(0)
		if !w.Ahead {
			t.Fatal("it isn't warm")
		}
		w.State(func(s *handover.State) { s.AskCold() })
		w.Kill()
		<-w.Gone()
	}
	leave()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if w := r.Channels.Worker(0); w != nil && !w.Ahead && w.String() == "prog (pid 9)" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no cold worker serves")
		}
	}
	if !slices.Equal(r.begun, []bool{true}) {
		t.Errorf("cold workers that are noted before they serve: %v", r.begun)
	}
	r.Channels.Close(0)
	r.awaitWarm()
	r.play(func(c *childtest.Child) { _, _ = c.Receive() })
	head, err := r.driver.Add(virtqueuetest.Desc{Addr: 4096, Len: 64})
	if err != nil {
		t.Fatal(err)
	}
	leave()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if id, _, ok := r.driver.Reap(); ok && uint16(id) == head {
			break
		}
		if time.Now().After(end) {
			t.Fatal("its chain doesn't come back")
		}
	}
}

// TestResume: a worker goes on with what is in a file, for a program that is there still.
func TestResume(t *testing.T) {
	r := newRig(t)
	r.start(0)
	here, there, err := lanes.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	defer there.Close()
	from := saving.Source{From: there, Bytes: 1 << 20}
	p := &saving.Program{Channel: 0, PID: 5, Name: "saved"}
	yes, no := func() bool { return true }, func() bool { return false }
	if _, err := r.Resume(p, from, no); !errors.Is(err, queues.ErrNotRunning) {
		t.Fatal(err)
	}
	w, err := r.Resume(p, from, yes)
	if err != nil || w.String() != "saved (pid 5)" {
		t.Fatalf("%v, %v", w, err)
	}
	if m := r.gave()[0]; !m.Saved || m.Files.Lanes != len(there.FDs()) {
		t.Errorf("it got %+v", m)
	}
	if _, err := r.Resume(p, from, yes); !errors.Is(err, errBusy) {
		t.Fatal(err)
	}
	w.End()
	if list := r.Channels.Serving(); slices.ContainsFunc(list,
		func(x *workers.Worker) bool { return suspend.Worker(x) == w }) {
		t.Error("it serves still")
	}
}

// TestArrive: a program comes before the guest's memory and its queue, and its worker gets both
// when the queue starts.
func TestArrive(t *testing.T) {
	r := newRig(t)
	mem := r.RAM.Put(nil)
	here, there, err := lanes.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	defer there.Close()
	from := saving.Source{From: there, Bytes: 1 << 20}
	p := &saving.Program{Channel: 0, PID: 5, Name: "comes"}
	w, err := r.Arrive(p, from)
	if err != nil || w.String() != "comes (pid 5)" {
		t.Fatalf("%v, %v", w, err)
	}
	if m := r.gave()[0]; !m.Saved || m.Files.Lanes != len(there.FDs()) || m.Queue != nil ||
		m.Memory != nil {
		t.Errorf("it got %+v", m)
	}
	if _, err := r.Arrive(p, from); !errors.Is(err, errBusy) {
		t.Fatal(err)
	}
	r.RAM.Put(mem)
	r.start(0)
	for end := time.Now().Add(soon); len(r.resumed()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it doesn't go on")
		}
	}
	if m := r.resumed()[0]; m.Queue.Size != r.driver.Size || len(m.Memory) != 1 {
		t.Errorf("it goes on with %+v", m)
	}
}
