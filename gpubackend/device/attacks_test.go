// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// These are attacks of one VM on the share of another, b, which has work all the time.

// goesOn checks that b goes on beside what others do: with a tenth of the time at the least, and
// with kernels that it gets to the GPU in that. It is to have a half or a third, but for a host
// that is busy, where how much a turn is good for is the processors' doing.
func (h *host) goesOn(b *tenant) {
	h.Helper()
	inSomeWindow(h.T, func() error {
		n := during(window/2, b.kernels, h.held("b"))
		if n[0] == 0 || n[1] < 0.1*(window/2).Seconds() {
			return fmt.Errorf("%g kernels in %.3f of %v", n[0], n[1], window/2)
		}
		return nil
	}, b)
}

// shares checks that b and the attacker were charged alike, as far as a busy host allows. Some of
// them have work in each window.
func (h *host) shares(launch ...*tenant) {
	h.Helper()
	inSomeWindow(h.T, func() error {
		n := during(window, h.held("a"), h.held("b"))
		if part := n[1] / (n[0] + n[1]); !(part > 0.4 && part < 0.6) {
			return fmt.Errorf("%g and %g: a share of %.3f, want 0.500", n[0], n[1], part)
		}
		return nil
	}, launch...)
}

// full keeps a program's ring full until stop is called.
func (p *spinner) full(long time.Duration) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-quit:
				return
			default:
			}
			if p.unread() > wire.RingBytes/2 {
				time.Sleep(time.Millisecond)
				continue
			}
			p.launch(1000, long)
		}
	}()
	return func() { close(quit); <-ended }
}

// TestKernelsOfSeconds in a loop: each has the GPU for longer than any turn.
func TestKernelsOfSeconds(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	a.programs[0].launch(plenty, 2*time.Second)
	work(plenty, b)
	time.Sleep(settling)
	h.goesOn(b)
}

// TestLaunchesWithoutEnd of kernels that do nothing: as many as a worker can read.
func TestLaunchesWithoutEnd(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	stop := a.programs[0].full(0)
	defer stop()
	work(plenty, b)
	time.Sleep(settling)
	h.shares(b)
	h.goesOn(b)
	grow(t, "the others keep all from the VM that launches most", a.kernels)
}

// Nodes of graphs: more than a software GPU takes, and about as many as it does.
const tooMany, hugeGraph = 100_000, 30_000

// capture makes a graph of so many kernels and instantiates it.
func (p *spinner) capture(nodes int, stream uint64) (graph, exec uint64, r gpubackend.Result) {
	p.t.Helper()
	p.do(gpubackend.OpStreamBeginCapture, stream, 0)
	for n := 0; n < nodes; {
		if p.unread() > wire.RingBytes/2 {
			time.Sleep(time.Millisecond)
			continue
		}
		p.launchIn(stream, 1000, 0)
		n += 1000
	}
	graph = p.do(gpubackend.OpStreamEndCapture, stream)
	p.seq++
	r, err := p.call(p.channel, gpubackend.OpGraphInstantiateWithFlags, p.seq, graph, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return graph, p.word(0), r
}

// TestHugeGraphs are launched again and again: one launch each, for whatever they do.
func TestHugeGraphs(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	work(plenty, b)
	p := a.programs[0]
	stream := p.do(gpubackend.OpStreamCreateWithPriority, 1, 0)
	graph, _, r := p.capture(tooMany, stream)
	if r != gpubackend.OutOfMemory {
		t.Errorf("a graph of %d nodes: %v", tooMany, r)
	}
	p.do(gpubackend.OpGraphDestroy, graph)
	_, exec, r := p.capture(hugeGraph, stream)
	if r != gpubackend.Success {
		t.Fatalf("a graph of %d nodes: %v", hugeGraph, r)
	}
	for range 100 {
		p.post(gpubackend.OpGraphLaunch, exec, stream)
	}
	p.submit(p.channel)
	time.Sleep(settling)
	h.goesOn(b)
}

// manyPrograms is how many a VM's memory has room for here.
const manyPrograms = 24

// TestCrowdOfPrograms of one VM has the share of one VM.
func TestCrowdOfPrograms(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, manyPrograms), h.vm("b", nil, 1)
	work(plenty/10, a)
	work(plenty, b)
	time.Sleep(settling)
	h.shares(a, b)
}

// TestTurnThatNeverEnds: a worker says that it has work on the GPU, and never that it has ended.
func TestTurnThatNeverEnds(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 0), h.vm("b", nil, 1)
	defer lie(func() {
		w := a.page.Worker(7)
		w.Hold()
		w.Wait(true)
	})()
	work(plenty, b)
	time.Sleep(settling)
	h.goesOn(b)
}

// TestWorkerThatHidesItsWork says all the time that it has none: it gets no more than its share.
func TestWorkerThatHidesItsWork(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	entry := a.worker(0).entry
	defer lie(func() { a.page.Worker(entry).Rest() })()
	work(plenty, a, b)
	time.Sleep(settling)
	h.goesOn(b)
}

// TestFloodOfBells: a worker rings without end.
func TestFloodOfBells(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	defer lie(func() { _, _ = unix.Write(a.page.BellFD(), []byte{1, 0, 0, 0, 0, 0, 0, 0}) })()
	work(plenty, a, b)
	time.Sleep(settling)
	h.shares(a, b)
}

// lie does something again and again until stop is called.
func lie(f func()) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-quit:
				return
			default:
				f()
				time.Sleep(20 * time.Microsecond)
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// TestVMThatComesAndGoes in a loop, with work each time.
func TestVMThatComesAndGoes(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	page, err := gate.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(page.Close)
	defer lie(func() {
		page.Worker(0).Wait(true)
		page.Worker(0).Hold()
		c, err := client.New(client.Config{
			Path: h.path, Required: true, Name: "ghost", GPUs: []link.GPU{{Name: "soft"}},
			Page: page, Log: quiet(),
		})
		if err == nil {
			c.Close()
		}
	})()
	work(plenty, a, b)
	time.Sleep(settling)
	h.shares(a, b)
	h.goesOn(b)
}
