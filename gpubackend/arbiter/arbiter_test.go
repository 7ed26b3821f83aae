// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"io"
	"math"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// rig is an arbiter with a socket.
type rig struct {
	*testing.T
	path string
	a    *Arbiter
}

func newRig(t *testing.T, policies map[string]policy.Policy) *rig {
	t.Helper()
	return serve(t, newArbiter(t, policies))
}

func newArbiter(t *testing.T, policies map[string]policy.Policy) *Arbiter {
	t.Helper()
	l := logrus.New()
	l.SetOutput(io.Discard)
	a, err := New(Config{Table: &policy.Table{VMs: policies}, Log: logrus.NewEntry(l)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// serve has an arbiter take connections until the test ends.
func serve(t *testing.T, a *Arbiter) *rig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	socket, err := net.ListenUnix(link.Network, &net.UnixAddr{Name: path, Net: link.Network})
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Add(1)
	go func() {
		defer served.Done()
		if err := a.Serve(socket); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { socket.Close(); served.Wait(); a.Close() })
	return &rig{t, path, a}
}

// ask sends a request and returns the answer. The connection stays open until the test ends.
func (r *rig) ask(q link.Request, fds ...int) (*link.Conn, *link.Answer) {
	r.Helper()
	c, err := link.Dial(r.path, time.Second)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(c.Close)
	if q.Version == 0 {
		q.Version = link.Version
	}
	if err := c.Send(&q, fds...); err != nil {
		r.Fatal(err)
	}
	var a link.Answer
	if _, err := c.Receive(&a, 0); err != nil {
		r.Fatal(err)
	}
	return c, &a
}

// askJoin asks for a VM with a gate of its own, which stays until the test ends.
func (r *rig) askJoin(
	name string, gpus []link.GPU, policy map[string]string,
) (*gate.Page, *link.Conn, *link.Answer) {
	r.Helper()
	return r.askRoom(name, 0, gpus, policy)
}

// askRoom does so for a VM that was given so much memory of each GPU.
func (r *rig) askRoom(
	name string, room uint64, gpus []link.GPU, policy map[string]string,
) (*gate.Page, *link.Conn, *link.Answer) {
	r.Helper()
	p, err := gate.New()
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(p.Close)
	memory, bell, opened := p.FDs()
	q := link.Request{Kind: link.Join, Name: name, GPUs: gpus, Room: room,
		Policy: policy}
	c, a := r.ask(q, memory, bell, opened)
	return p, c, a
}

// join makes a VM.
func (r *rig) join(name string, policy map[string]string) (*gate.Page, *link.Conn) {
	r.Helper()
	p, c, a := r.askJoin(name, gpus("gpu"), policy)
	if a.Error != "" {
		r.Fatal(a.Error)
	}
	return p, c
}

// gpus is one GPU.
func gpus(name string) []link.GPU { return []link.GPU{{Name: name}} }

// vm returns what the arbiter tells of a VM.
func (r *rig) vm(name string) link.VM {
	r.Helper()
	for _, v := range r.list() {
		if v.Name == name {
			return v
		}
	}
	r.Fatalf("no VM %s", name)
	return link.VM{}
}

// list returns what the arbiter tells of all VMs.
func (r *rig) list() (vms []link.VM) {
	r.Helper()
	time.Sleep(listAge)
	c, a := r.ask(link.Request{Kind: link.List})
	for a.More {
		vms = append(vms, a.VMs...)
		a = &link.Answer{}
		if _, err := c.Receive(a, 0); err != nil {
			r.Fatal(err)
		}
	}
	return vms
}

// await waits for something that happens soon.
func (r *rig) await(what string, happened func() bool) {
	r.Helper()
	for end := time.Now().Add(time.Minute); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("waited in vain: %s", what)
		}
	}
}

// gpu is a GPU that one goroutine at a time uses, and counts those that come together.
type gpu struct{ users, clashes atomic.Int32 }

// work is a worker with kernels of a given length, one at a time, without end.
func (g *gpu) work(w *gate.Worker, kernel time.Duration, stop *atomic.Bool) {
	for !stop.Load() {
		w.Wait(true)
		if !w.Enter() {
			time.Sleep(20 * time.Microsecond)
			continue
		}
		if g.users.Add(1) > 1 {
			g.clashes.Add(1)
		}
		time.Sleep(kernel)
		g.users.Add(-1)
		w.Leave()
	}
	w.Wait(false)
}

func TestTurnsByWeight(t *testing.T) {
	r := newRig(t, nil)
	var g gpu
	var stop atomic.Bool
	var workers sync.WaitGroup
	r.join("idle", nil) // so that no gate is free
	for name, weight := range map[string]string{"one": "100", "three": "300"} {
		p, _ := r.join(name, map[string]string{"weight": weight})
		// A worker that the machine keeps from its processor asks for nothing meanwhile. Another
		// one of the VM does, so that the shares are what turns make them.
		p.Worker(1).Wait(true)
		workers.Add(1)
		go func() {
			defer workers.Done()
			g.work(p.Worker(0), 500*time.Microsecond, &stop)
		}()
	}
	var one, three link.VM
	// By what was charged in all.
	for end := time.Now().Add(time.Minute); ; {
		time.Sleep(200 * time.Millisecond)
		for _, v := range r.list() {
			switch v.Name {
			case "one":
				one = v
			case "three":
				three = v
			}
		}
		ratio := float64(three.HeldNS) / float64(one.HeldNS)
		if math.Abs(ratio-3) <= 0.5 && one.Turns >= 10 && three.Turns >= 10 {
			break
		}
		t.Logf("held %d and %d ns in %d and %d turns: a ratio of %.2f, want 3", one.HeldNS,
			three.HeldNS, one.Turns, three.Turns, ratio)
		if time.Now().After(end) {
			t.Error("it stays so")
			break
		}
	}
	stop.Store(true)
	workers.Wait()
	if n := g.clashes.Load(); n > 0 && one.Overruns+three.Overruns == 0 {
		t.Errorf("both were on the GPU %d times", n)
	}
}

func TestAloneAndNotAlone(t *testing.T) {
	r := newRig(t, nil)
	p, _ := r.join("a", nil)
	if s := p.State(); !s.Open || !s.Free {
		t.Errorf("alone: %+v", s)
	}
	q, c := r.join("b", nil)
	if s := p.State(); s.Free || !s.Open || q.State().Open {
		t.Errorf("two: %+v and %+v, want the first one's open", s, q.State())
	}
	w := q.Worker(9)
	w.Wait(true)
	r.await("the second one's gate opens", func() bool { return q.State().Open })
	if n := w.Turn(); n != 1 {
		t.Errorf("its first turn has number %d", n)
	}
	if p.State().Open {
		t.Error("both gates are open")
	}
	c.Close()
	r.await("the first is alone again", func() bool { s := p.State(); return s.Open && s.Free })
}

func TestWhatOthersWriteIsPutRight(t *testing.T) {
	r := newRig(t, nil)
	r.join("a", nil)
	q, _ := r.join("b", nil)
	q.Set(gate.Unshared)
	q.SetTurn(gate.Turn{Number: 7, Overruns: 9})
	r.await("the gate closes", func() bool { return !q.State().Open })
	w := q.Worker(0)
	r.await("the turn is that of the arbiter", func() bool {
		return w.Turn() == 0 && w.Overruns() == 0
	})
}

func TestBellThatRingsWithoutEnd(t *testing.T) {
	r := newRig(t, nil)
	p, _ := r.join("noisy", nil)
	q, _ := r.join("b", nil)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for w := p.Worker(0); !stop.Load(); {
			w.Wait(true)
			w.Wait(false)
		}
	}()
	q.Worker(0).Wait(true)
	for range 20 {
		r.await("the other has its turn", func() bool { return q.State().Open })
		q.Worker(0).Wait(false)
		q.Worker(0).Wait(true)
	}
	stop.Store(true)
	<-done
}

func TestPolicies(t *testing.T) {
	r := newRig(t, map[string]policy.Policy{"fixed": {Time: turns.Policy{Weight: 7}}})
	_, own := r.join("own", map[string]string{"weight": "5", "class": "latency"})
	r.join("fixed", map[string]string{"weight": "9000"})
	if v := r.vm("own"); v.Policy["weight"] != "5" || v.Policy["class"] != "latency" {
		t.Errorf("policy %v", v.Policy)
	}
	if v := r.vm("fixed"); v.Policy["weight"] != "7" {
		t.Errorf("policy %v: want the operator's", v.Policy)
	}
	change := link.Request{Kind: link.Set, Policy: map[string]string{"weight": "6"}}
	if err := own.Send(&change); err != nil {
		t.Fatal(err)
	}
	r.await("the policy changes", func() bool { return r.vm("own").Policy["weight"] == "6" })
	q := link.Request{Kind: link.Set, Name: "fixed"}
	q.Policy = map[string]string{"weight": "8", "turn": "1ms"}
	if _, a := r.ask(q); a.Error != "" || r.vm("fixed").Policy["weight"] != "8" {
		t.Errorf("set: %q, %v", a.Error, r.vm("fixed").Policy)
	}
	q.Policy = map[string]string{"weight": "9", "turn": "1h"}
	if _, a := r.ask(q); a.Error == "" || r.vm("fixed").Policy["weight"] != "8" {
		t.Errorf("a bad policy: %q, %v: want an error and no change", a.Error, r.vm("fixed").Policy)
	}
}

func TestFigures(t *testing.T) {
	r := newRig(t, nil)
	_, c := r.join("a", nil)
	f := link.Figures{Memory: map[string]uint64{"window": 5}}
	if err := c.Send(&link.Request{Kind: link.Tell, Figures: &f}); err != nil {
		t.Fatal(err)
	}
	r.await("the figures are there", func() bool {
		v := r.vm("a")
		return v.Figures != nil && v.Figures.Memory["window"] == 5
	})
}

func TestBadRequests(t *testing.T) {
	r := newRig(t, nil)
	r.join("taken", nil)
	p, err := gate.New()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	memory, bell, opened := p.FDs()
	for name, q := range map[string]link.Request{
		"another version": {
			Version: link.Version + 1, Kind: link.Join, Name: "x", GPUs: gpus("g"),
		},
		"no name":      {Kind: link.Join, GPUs: gpus("g")},
		"a bad name":   {Kind: link.Join, Name: "../x", GPUs: gpus("g")},
		"a name twice": {Kind: link.Join, Name: "taken", GPUs: gpus("g")},
		"no GPU":       {Kind: link.Join, Name: "x"},
		"a bad policy": {
			Kind: link.Join, Name: "x", GPUs: gpus("g"), Policy: map[string]string{"weight": "-1"},
		},
		"nothing known": {Kind: "dance"},
		"set of nobody": {Kind: link.Set, Name: "nobody"},
	} {
		if _, a := r.ask(q, memory, bell, opened); a.Error == "" {
			t.Errorf("%s: no error", name)
		}
	}
	for name, fds := range map[string][]int{
		"no files": nil, "too few": {memory}, "no events": {memory, memory, memory},
		"no memory": {bell, bell, bell},
	} {
		q := link.Request{Kind: link.Join, Name: "x", GPUs: gpus("g")}
		if _, a := r.ask(q, fds...); a.Error == "" {
			t.Errorf("%s: no error", name)
		}
	}
	if vms := r.list(); len(vms) != 1 {
		t.Errorf("there are %d VMs, want 1", len(vms))
	}
}

// TestComeAndGo has VMs that vanish in a loop beside one that works.
func TestComeAndGo(t *testing.T) {
	r := newRig(t, nil)
	p, _ := r.join("steady", nil)
	var g gpu
	var stop atomic.Bool
	done := make(chan struct{})
	go func() { defer close(done); g.work(p.Worker(0), 100*time.Microsecond, &stop) }()
	for range 200 {
		q, c := r.join("ghost", nil)
		w := q.Worker(0)
		w.Wait(true)
		w.Enter()
		c.Close()
		r.await("it has left", func() bool {
			n := 0
			r.a.loop.do(func() { n = len(r.a.loop.members) })
			return n == 1
		})
	}
	before := r.vm("steady").Turns
	r.await("the other goes on", func() bool {
		return p.State().Open || r.vm("steady").Turns > before
	})
	stop.Store(true)
	<-done
}
