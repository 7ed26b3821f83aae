// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// These are attacks of one VM on the share of another, b, which has work all the time.

// due is the victim's share, b's, where it and one attacker have work. It may lack 5 % of that.
const due, leastShare = 0.5, 0.95 * 0.5

// keeps checks that b has its share at the least beside what others do, and gets kernels to the GPU
// in it. It is its part of the time that the arbiter charged for, which is a tenth of the window at
// the least: how much of that is used is the processors' doing, of which a busy host has too few.
func (h *host) keeps(b *tenant) {
	h.Helper()
	inSomeWindow(h.T, func() error {
		n := during(window/2, b.kernels, h.held("b"), h.charged)
		part := n[1] / n[2]
		if n[0] == 0 || n[1] < 0.1*(window/2).Seconds() || !(part >= leastShare) {
			return fmt.Errorf("%g kernels in %.3f of %.3f: a share of %.3f, want %.3f", n[0], n[1],
				n[2], part, due)
		}
		return nil
	}, b)
}

// goesOn checks that b goes on beside what others do: with a tenth of the time at the least, and
// with kernels that it gets to the GPU in that. It is for where a busy host keeps it from more.
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

// charged is for how long all VMs that are there have held the GPU, in seconds.
func (h *host) charged() (sum float64) {
	for _, v := range h.arbiter.VMs() {
		sum += float64(v.HeldNS) / 1e9
	}
	return sum
}

// shares checks that b and the attacker, a, were charged alike, but for so much of the sum. Some of
// them have work in each window.
func (h *host) shares(within float64, launch ...*tenant) {
	h.Helper()
	inSomeWindow(h.T, func() error {
		n := during(window, h.held("a"), h.held("b"))
		if part := n[1] / (n[0] + n[1]); !(math.Abs(part-due) <= within) {
			return fmt.Errorf("%g and %g: a share of %.3f, want %.3f", n[0], n[1], part, due)
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
	asks(b)
	time.Sleep(settling)
	h.keeps(b)
}

// TestVictimsOfAnEndlessKernel have a third each, as beside a VM that behaves: they have their
// turns at the same time.
func TestVictimsOfAnEndlessKernel(t *testing.T) {
	h := newHost(t)
	a, b, c := h.vm("a", nil, 1), h.vm("b", nil, 1), h.vm("c", nil, 1)
	a.programs[0].launch(2, 1<<62)
	work(plenty, b, c)
	asks(b, c)
	time.Sleep(settling)
	inSomeWindow(t, func() error {
		n := during(window/2, h.held("b"), h.held("c"), h.charged, b.kernels, c.kernels)
		for i := range 2 {
			if part := n[i] / n[2]; n[3+i] == 0 || !(part >= 0.95/3) {
				return fmt.Errorf("%g kernels in %.3f of %.3f: a share of %.3f, want a third",
					n[3+i], n[i], n[2], part)
			}
		}
		return nil
	}, b, c)
}

// TestLaunchesWithoutEnd of kernels that do nothing: as many as a worker can read.
func TestLaunchesWithoutEnd(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	stop := a.programs[0].full(0)
	defer stop()
	work(plenty, b)
	asks(a, b)
	time.Sleep(settling)
	h.shares(due-leastShare, b)
	h.keeps(b)
	grow(t, "the others keep all from the VM that launches most", a.kernels)
}

// Nodes of graphs: more than a software GPU takes, and about as many as it does. (A GPU takes all:
// tests/bench/attacks.)
const tooMany, hugeGraph = 66_000, 30_000

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
	asks(b)
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
	h.keeps(b)
}

// manyPrograms is as many as a VM can have. Each is a process, which takes a while to start.
const manyPrograms, manyShort = 64, 16

// TestCrowdOfPrograms of one VM has the share of one VM.
func TestCrowdOfPrograms(t *testing.T) {
	h, many := newHost(t), manyPrograms
	if testing.Short() {
		many = manyShort
	}
	a, b := h.vm("a", nil, many), h.vm("b", nil, 1)
	work(plenty/10, a)
	work(plenty, b)
	asks(b)
	time.Sleep(settling)
	h.shares(due-leastShare, a, b)
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
	asks(b)
	time.Sleep(settling)
	h.keeps(b)
}

// TestWorkerThatHidesItsWork says all the time that it has none: it gets no more than its share.
func TestWorkerThatHidesItsWork(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	entry := a.entry(0)
	defer lie(func() { a.page.Worker(entry).Rest() })()
	work(plenty, a, b)
	asks(b)
	time.Sleep(settling)
	h.keeps(b)
}

// TestFloodOfBells: a worker rings without end.
func TestFloodOfBells(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	defer lie(func() { _, _ = unix.Write(a.page.BellFD(), []byte{1, 0, 0, 0, 0, 0, 0, 0}) })()
	work(plenty, a, b)
	asks(a, b)
	time.Sleep(settling)
	h.shares(due-leastShare, a, b)
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

// visit has a VM join the arbiter, and leave it again at once.
func (h *host) visit(name string, page *gate.Page) error {
	c, err := client.New(client.Config{
		Path: h.path, Required: true, Name: name, GPUs: []link.GPU{{Name: "soft"}},
		Page: page, Log: quiet(),
	})
	if err == nil {
		c.Close()
	}
	return err
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
		_ = h.visit("ghost", page)
	})()
	work(plenty, a, b)
	asks(a, b)
	time.Sleep(settling)
	h.shares(due-leastShare, a, b)
	h.goesOn(b)
}

// TestTwoVMsOfOneName: the second one is refused each time, and costs the first nothing.
func TestTwoVMsOfOneName(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	page, err := gate.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(page.Close)
	var joined, refused atomic.Int64
	defer lie(func() {
		page.Worker(0).Hold()
		err := h.visit("b", page)
		if err == nil {
			joined.Add(1)
		} else if strings.Contains(err.Error(), "--name") {
			refused.Add(1)
		}
	})()
	work(plenty, a, b)
	asks(a, b)
	time.Sleep(settling)
	h.shares(due-leastShare, a, b)
	h.keeps(b)
	if joined.Load() > 0 || refused.Load() == 0 {
		t.Errorf("a second VM of the name joined %d times and was refused %d times", joined.Load(),
			refused.Load())
	}
}

// TestLogOnAFullDisk: the arbiter can't write its log, and has much to say.
func TestLogOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { full.Close() })
	h := &host{T: t, path: filepath.Join(t.TempDir(), "arbiter"), log: logrus.New()}
	h.log.SetLevel(logrus.TraceLevel)
	var failed atomic.Int64
	h.log.SetOutput(failing{full, &failed})
	h.start()
	t.Cleanup(func() { h.stop() })
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	page, err := gate.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(page.Close)
	defer lie(func() { // comes and goes, which is logged
		time.Sleep(20 * time.Millisecond)
		_ = h.visit("ghost", page)
	})()
	work(plenty, a, b)
	asks(a, b)
	time.Sleep(settling)
	h.shares(due-leastShare, a, b)
	h.keeps(b)
	if failed.Load() == 0 {
		t.Error("nothing was logged")
	}
}

// failing counts what couldn't be written.
type failing struct {
	file   *os.File
	failed *atomic.Int64
}

func (f failing) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	if err != nil {
		f.failed.Add(1)
	}
	return n, err
}
