// SPDX-License-Identifier: Apache-2.0

package hostfuncs

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// fakeGuest is a device whose streams reach each function at once. It is the guest's side of the
// slot, too, and runs a function when a test says so.
type fakeGuest struct {
	mu       sync.Mutex
	said     []uint64 // tokens, in order
	results  []int32
	done     uint32
	released []uint64
	woken    int
	refuse   gpubackend.Result
}

func (g *fakeGuest) HostFunc(
	_ gpubackend.Stream, token uint64, f func(uint64),
) (func(), gpubackend.Result) {
	if g.refuse != gpubackend.Success {
		return nil, g.refuse
	}
	f(token)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.released = append(g.released, token)
	}, gpubackend.Success
}
func (g *fakeGuest) HostFuncKept(
	_ gpubackend.Stream, token uint64, f gpubackend.HostCall,
) gpubackend.Result {
	f(token, func() { g.mu.Lock(); defer g.mu.Unlock(); g.released = append(g.released, token) })
	return gpubackend.Success
}
func (g *fakeGuest) Find(*call.Call, uint64) (gpubackend.Stream, gpubackend.Result) { return 1, 0 }
func (g *fakeGuest) HostDone() uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done
}
func (g *fakeGuest) Answer(slot uint16, seq uint32, result int32, words []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if slot != wire.HostSlot || int(seq) != len(g.said)+1 {
		panic("another slot or number")
	}
	g.said, g.results = append(g.said, words[0]), append(g.results, result)
}

func (g *fakeGuest) state() (said []uint64, results []int32, released []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.said), slices.Clone(g.results), slices.Clone(g.released)
}

// run has the guest run what it was told of.
func (g *fakeGuest) run() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done = uint32(len(g.said))
}

func newFuncs(t *testing.T) (*HostFuncs, *fakeGuest) {
	g := &fakeGuest{}
	h := New(Config{
		Driver: g, Streams: g, Arena: func() Arena { return g }, WakeLoop: func() {},
		WakeGuest: func() { g.mu.Lock(); defer g.mu.Unlock(); g.woken++ },
	})
	t.Cleanup(h.Close)
	return h, g
}

func queue(h *HostFuncs, token uint64) gpubackend.Result {
	command := &arena.Command{N: 2}
	command.Words[1] = token
	var c call.Call
	c.Start(command)
	return h.Handlers()[gpubackend.OpHostFunc].Run(&c)
}

// until waits for the goroutine that also serves the slot.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(50 * time.Microsecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal(what)
		}
	}
}

// TestFunctionsRunOneAtATime, in order, and each lets its stream go on when it has returned.
func TestFunctionsRunOneAtATime(t *testing.T) {
	h, g := newFuncs(t)
	const n = 20
	for token := uint64(1); token <= n; token++ {
		if token%3 == 0 {
			token |= KeptToken
		}
		if got := queue(h, token); got != gpubackend.Success {
			t.Fatalf("function %#x: %v", token, got)
		}
		token &^= KeptToken
	}
	for i := range n {
		// The guest is told of the next before the last one's stream goes on: wait for both.
		until(t, "the next function isn't told", func() bool {
			said, _, released := g.state()
			return len(said) == i+1 && len(released) >= i
		})
		said, results, released := g.state()
		if said[i]&^KeptToken != uint64(i+1) || results[i] != 0 || len(released) != i {
			t.Fatalf("told %#x, released %x", said, released)
		}
		g.run()
	}
	until(t, "the last isn't released", func() bool {
		_, _, released := g.state()
		return len(released) == n && !h.Busy()
	})
}

func TestHeld(t *testing.T) {
	h, g := newFuncs(t)
	h.Hold()
	queue(h, 7)
	for range 100 {
		if h.Advance() {
			t.Fatal("something was done")
		}
	}
	time.Sleep(5 * maxHostPause)
	if said, _, _ := g.state(); len(said) != 0 {
		t.Fatalf("told %x", said)
	}
	h.LetGo()
	until(t, "not told", func() bool { said, _, _ := g.state(); return len(said) == 1 })
}

// TestTheEndIsToldOnce, after what was due.
func TestTheEndIsToldOnce(t *testing.T) {
	h, g := newFuncs(t)
	h.Fail(gpubackend.IllegalAddress) // nobody waits for functions yet
	queue(h, 7)
	for range 3 {
		h.Fail(gpubackend.IllegalAddress)
	}
	until(t, "not told", func() bool { said, _, _ := g.state(); return len(said) == 1 })
	g.run()
	until(t, "the end isn't told", func() bool { said, _, _ := g.state(); return len(said) == 2 })
	g.run()
	until(t, "busy", func() bool { return !h.Busy() })
	said, results, _ := g.state()
	if said[0] != 7 || said[1] != 0 || gpubackend.Result(results[1]) != gpubackend.IllegalAddress ||
		len(said) != 2 {
		t.Errorf("told %x, %v", said, results)
	}
}

func TestFunctionsAreBounded(t *testing.T) {
	h, g := newFuncs(t)
	if queue(h, 0) != gpubackend.InvalidValue {
		t.Error("a function without a token")
	}
	g.refuse = gpubackend.InvalidHandle
	if got := queue(h, 1); got != gpubackend.InvalidHandle || len(h.release) != 0 {
		t.Errorf("refused: %v, %d are kept", got, len(h.release))
	}
	for token := range uint64(MaxFuncs) {
		h.add(token + 1)
		if _, result := h.Keep(KeptToken | token); result != gpubackend.Success {
			t.Fatal(result)
		}
	}
	if h.add(MaxFuncs + 1) {
		t.Error("one more is queued")
	}
	if _, result := h.Keep(KeptToken | MaxFuncs); result != gpubackend.OutOfMemory {
		t.Errorf("one more is kept: %v", result)
	}
	if _, result := h.Keep(KeptToken | 5); result != gpubackend.Success {
		t.Errorf("one that is known: %v", result)
	}
}
