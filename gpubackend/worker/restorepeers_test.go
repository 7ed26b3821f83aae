// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// pair is a program with two GPUs, a context on each, and memory there.
type pair struct {
	*rig
	end     func()
	context [2]uint64
	memory  [2]uint64
}

func newPair(t testing.TB) *pair {
	t.Helper()
	p := &pair{}
	p.rig, p.end = freshOnSoft(t)
	if result := p.hello.Reopen(nil); result != gpubackend.Success {
		t.Fatalf("open: %d", result)
	}
	for i := range p.context {
		p.context[i] = p.does(t, gpubackend.OpDevicePrimaryCtxRetain, uint64(i))
		p.rig.context = p.context[i]
		p.memory[i] = p.does(t, gpubackend.OpMemAlloc, 4096)
	}
	return p
}

// on executes a command in the context of a GPU.
func (p *pair) on(t testing.TB, gpu int, op gpubackend.Op, words ...uint64) gpubackend.Result {
	t.Helper()
	p.rig.context = p.context[gpu]
	return p.call(t, op, words...)
}

// reaches says whether each GPU reaches the other's memory: only then can it fill it.
func (p *pair) reaches(t *testing.T) (list [2]bool) {
	t.Helper()
	for gpu := range list {
		r := p.on(t, gpu, gpubackend.OpMemsetD8Async, p.memory[1-gpu], 7, 16, 0)
		list[gpu] = r == gpubackend.Success
		p.awaitsWork()
	}
	return list
}

// again is the program, which ends, in another worker.
func (p *pair) again(t *testing.T) *pair {
	t.Helper()
	s := p.rig.saved(t)
	p.end()
	q := *p
	q.rig, q.end = freshOnSoft(t)
	if err := q.restoreSections(t, s); err != nil {
		t.Fatal(err)
	}
	return &q
}

// peerStep is a command in the context of a GPU, and how it ends.
type peerStep struct {
	gpu   int
	op    gpubackend.Op
	words func(p *pair) []uint64
	want  gpubackend.Result
}

func (p *pair) take(t testing.TB, steps []peerStep) {
	t.Helper()
	for i, s := range steps {
		if r := p.on(t, s.gpu, s.op, s.words(p)...); r != s.want {
			t.Fatalf("step %d, %s: result %d, want %d", i, s.op.Name(), r, s.want)
		}
	}
}

// peerCall gives the context of one GPU access to that of the other, or takes it back.
func peerCall(gpu int, op gpubackend.Op, want gpubackend.Result) peerStep {
	words := 1
	if op == gpubackend.OpCtxEnablePeerAccess {
		words = 2
	}
	return peerStep{gpu, op,
		func(p *pair) []uint64 { return []uint64{p.context[1-gpu], 0}[:words] }, want}
}

// poolCall gives GPU 1 a pool of GPU 0's, or takes it back.
func poolCall(access uint64) peerStep {
	return peerStep{0, gpubackend.OpPoolAccess,
		func(*pair) []uint64 { return []uint64{1, 0, access} }, gpubackend.Success}
}

// TestPeersRestored: in another worker each GPU reaches the memory of the other as before, and what
// was given can be taken back as before.
func TestPeersRestored(t *testing.T) {
	const (
		enable  = gpubackend.OpCtxEnablePeerAccess
		disable = gpubackend.OpCtxDisablePeerAccess
		ok      = gpubackend.Success
	)
	gives, takes := poolCall(gpubackend.AccessReadWrite), poolCall(gpubackend.AccessNone)
	enables0, enables1 := peerCall(0, enable, ok), peerCall(1, enable, ok)
	disables0 := peerCall(0, disable, ok)
	for name, x := range map[string]struct {
		before []peerStep
		want   [2]bool
		after  []peerStep
		then   [2]bool
	}{
		"none": {after: []peerStep{peerCall(0, disable, gpubackend.PeerAccessNotEnabled)}},
		"one way": {[]peerStep{enables0}, [2]bool{true, false},
			[]peerStep{peerCall(0, enable, gpubackend.PeerAccessAlreadyEnabled), disables0},
			[2]bool{}},
		"both ways": {[]peerStep{enables0, enables1}, [2]bool{true, true},
			[]peerStep{disables0}, [2]bool{false, true}},
		"taken back": {[]peerStep{enables0, enables1, disables0}, [2]bool{false, true},
			[]peerStep{enables0}, [2]bool{true, true}},
		"of three pools two": {[]peerStep{gives, gives, gives, takes}, [2]bool{false, true},
			[]peerStep{takes, takes}, [2]bool{}},
		"a pool and a context": {[]peerStep{enables1, gives}, [2]bool{false, true},
			[]peerStep{takes}, [2]bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.take(t, x.before)
			for range 2 { // what was restored can be saved, too
				p = p.again(t)
			}
			defer p.end()
			if got := p.reaches(t); got != x.want {
				t.Errorf("they reach each other: %v, want %v", got, x.want)
			}
			p.take(t, x.after)
			if got := p.reaches(t); got != x.then {
				t.Errorf("then they reach each other: %v, want %v", got, x.then)
			}
		})
	}
}
