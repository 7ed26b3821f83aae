// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// gated are workers that have work in flight from their start on, and that end when the test says
// so.
type gated struct {
	stubs
	mu      sync.Mutex
	entries []int
	end     chan struct{}
}

func (g *gated) Worker(control *os.File) (Process, error) {
	return g.start(control, func(s *stub) {
		m, fds, err := s.Conn.Receive()
		if err != nil {
			return
		}
		n := m.Name(fds)
		p, err := gate.Open(n.Gate[0], n.Gate[1], n.Gate[2])
		handover.CloseFiles(append(n.Memory, n.Kick, n.Call, n.State, n.Conn))
		if err != nil {
			return
		}
		defer p.Close()
		p.Worker(m.Entry).Hold()
		g.mu.Lock()
		g.entries = append(g.entries, m.Entry)
		g.mu.Unlock()
		_ = s.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
		polite(s)
		<-g.end
	})
}

// TestEntryIsTheProcess: a worker gets the gate and an entry of it with its channel. The entry is
// cleared when the process has ended, not as soon as it is killed.
func TestEntryIsTheProcess(t *testing.T) {
	page, err := gate.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(page.Close)
	g := &gated{end: make(chan struct{})}
	v := newVMOf(t, Config{Spawn: g, Timeouts: short, Gate: page})
	v.hello()
	v.open(0)
	v.open(1)
	v.dev.Abandon()
	time.Sleep(5 * time.Millisecond)
	if _, inFlight := page.Demand(); !inFlight {
		t.Error("the entries of processes that live were cleared")
	}
	close(g.end)
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if _, inFlight := page.Demand(); !inFlight {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the entries of processes that have ended were not cleared")
		}
	}
	if len(g.entries) != 2 || g.entries[0] == g.entries[1] {
		t.Errorf("entries %v, want two that differ", g.entries)
	}
	if v.dev.accounts.Serving() {
		t.Error("entries are taken by nobody")
	}
}
