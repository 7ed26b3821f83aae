// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestColdProgram: a program has variables that its warm worker wasn't started with. Another worker
// takes over what the warm one left.
func TestColdProgram(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "warm-workers=1")
	for i := range uint64(3) {
		warm := v.warmWorkers(1)[0]
		v.program(0, coldVariable)
		v.starts(2*i+1, i)
		if v.worker(0) == warm {
			t.Fatal("the warm worker answered")
		}
		if v.worker(0).AsksCold() {
			t.Error("one that serves could be followed by another one")
		}
		if used := v.queues[1].Driver.UsedIdx(); int(used) != int(3*2*i) {
			t.Fatalf("%d chains came back", used)
		}
		v.closeChannel(0)
		v.reap(1, 3)

		v.warmWorkers(1)
		v.program(0, "CUDA_OTHER=1")
		v.starts(2*i+2, i+1)
		v.closeChannel(0)
		v.reap(1, 3)
	}
}

// TestReplacedWithoutACold: no other process takes this one's place while a program waits for a
// worker that is to begin cold.
func TestReplacedWithoutACold(t *testing.T) {
	replaced := make(chan struct{}, 1)
	v := newVMOf(t, Config{Spawn: &processes{}, Timeouts: patient, Replace: func() error {
		replaced <- struct{}{}
		return nil
	}})
	for _, awaits := range []bool{false, true} {
		if awaits {
			v.dev.channels.AwaitsCold(2, 0, workers.Program{PID: 7})
		}
		ended := make(chan error)
		go func() { ended <- v.dev.replace()() }()
		if awaits {
			select {
			case <-replaced:
				t.Fatal("replaced while a worker is awaited")
			case <-time.After(2 * coldLook):
			}
			v.dev.channels.Close(2)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		<-replaced
	}
	if newVMOf(t, Config{Spawn: &processes{}}).dev.replace() != nil {
		t.Error("a device without a keeper can be replaced")
	}
}

// TestColdProgramTooLate: a worker that has returned chains, or executed commands, can't be
// replaced. The program is told.
func TestColdProgramTooLate(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "warm-workers=1")
	v.warmWorkers(1)
	v.open(0)
	v.add(0, 9, wire.ChainHeader{Type: 77})
	v.furnish(0)
	text := coldVariable
	v.guest.Write(v.arena+wire.Bulk, []byte(text))
	bulk := uint64(wire.BufferBulk)<<56 | wire.Bulk
	v.reap(1, 1) // of the chain that means nothing
	v.send(0, gpubackend.Op(wire.OpHello), 1, bulk, uint64(len(text)), bulk+4096, 4096)
	v.reap(1, 3)
	v.closeChannel(0)

	v.warmWorkers(1)
	v.open(1)
	v.furnish(1)
	if r, err := v.call(1, 999, 1); err != nil || r == 0 {
		t.Fatalf("call before HELLO: %d, %v", r, err)
	}
	v.guest.Write(v.arena+wire.Bulk, []byte(text))
	if r, err := v.call(1, gpubackend.Op(wire.OpHello), 2, bulk, uint64(len(text)), bulk+4096,
		4096); err != nil || r != gpubackend.NotPermitted {
		t.Fatalf("late HELLO: %d, %v", r, err)
	}
}

// mixed starts stubs as long as there are scripts, then real workers.
type mixed struct {
	real    processes
	mu      sync.Mutex
	scripts []func(*stub)
}

func (m *mixed) Worker(control *os.File) (Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.scripts) == 0 {
		return m.real.Worker(control)
	}
	script := m.scripts[0]
	m.scripts = m.scripts[1:]
	return m.real.start(control, script)
}

func (m *mixed) Mover(control *os.File) (Process, error) { return m.real.Mover(control) }

// serves is the script of a worker that becomes warm if it is told to, gets its channel, and does
// what rest says with the state.
func serves(rest func(*stub, *handover.State)) func(*stub) {
	return func(s *stub) {
		m, fds, err := s.Conn.Receive()
		if err == nil && m.Kind == handover.KindWarm {
			_ = s.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
			m, fds, err = s.Conn.Receive()
		}
		if err != nil {
			return
		}
		n := m.Name(fds)
		for _, fd := range fds {
			if fd != n.State {
				unix.Close(fd)
			}
		}
		state, err := handover.OpenState(n.State)
		if err != nil {
			return
		}
		defer state.Close()
		_ = s.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
		rest(s, state)
	}
}

// TestColdWhileStopped: the queue is stopped while its warm worker leaves it. The program's worker
// comes when the queue starts again.
func TestColdWhileStopped(t *testing.T) {
	leave := serves(func(s *stub, state *handover.State) {
		_, _ = s.Receive() // PAUSE
		state.AskCold()
	})
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprintf("closed=%v", closed), func(t *testing.T) {
			v := greetedVM(t, &mixed{scripts: []func(*stub){leave}}, Timeouts{}, "warm-workers=1")
			left := v.warmWorkers(1)[0]
			v.open(0)
			v.furnish(0)
			v.front.Stop(v.queues[1])
			<-left.Gone()
			if closed {
				v.closeChannel(0)
				v.front.Start(v.queues[1])
				v.reap(1, 3)
				return
			}
			if a := v.ask(wire.ControlRequest{Type: wire.ControlClose,
				Channel: 1}); a.Status != wire.StatusOk {
				t.Fatalf("CLOSE of another channel: %d", a.Status)
			}
			v.front.Start(v.queues[1])
			v.greet(0)
			v.closeChannel(0)
			v.reap(1, 3)
		})
	}
}

// TestColdIsAskedOnce: a worker that was started for its program can't leave it to another one.
func TestColdIsAskedOnce(t *testing.T) {
	ask := serves(func(_ *stub, state *handover.State) { state.AskCold() })
	v := greetedVM(t, &stubs{script: ask}, Timeouts{}, "warm-workers=1")
	for range 3 {
		v.warmWorkers(1)
		v.open(0)
		v.furnish(0)
		v.closeChannel(0)
		v.reap(1, 3)
	}
}
