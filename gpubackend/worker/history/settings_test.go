// SPDX-License-Identifier: Apache-2.0

package history

import (
	"maps"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/streams"
)

// again is another program, to which the same is done.
func (r *rig) again() *rig {
	r.t.Helper()
	list, err := r.Executed(0)
	if err != nil {
		r.t.Fatal(err)
	}
	other := newRig(r.t, 1<<20)
	done := func([]uint64) error { return nil }
	if err := other.Replay(list, other.run, done, done); err != nil {
		r.t.Fatal(err)
	}
	return other
}

// TestPeers: access of contexts is given again, until it is taken back or a context has ended.
func TestPeers(t *testing.T) {
	const enable, disable = gpubackend.OpCtxEnablePeerAccess, gpubackend.OpCtxDisablePeerAccess
	r := newRig(t, 1<<20)
	a, b, c := r.do(gpubackend.OpCtxCreate, 0), r.do(gpubackend.OpCtxCreate, 0),
		r.do(gpubackend.OpCtxCreate, 0)
	for _, x := range []struct {
		op       gpubackend.Op
		from, to uint64
	}{
		{enable, a, b}, {enable, b, a}, {enable, a, c}, {disable, a, b}, {enable, c, b},
		{disable, c, b}, {enable, c, b}, {disable, b, c},
	} {
		r.do(x.op, x.from, x.to, 0)
	}
	want := map[[2]uint64]bool{{b, a}: true, {a, c}: true, {c, b}: true}
	if got := r.again().peers; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r.objects.Remove(c)
	want = map[[2]uint64]bool{{b, a}: true}
	if got := r.again().peers; !maps.Equal(got, want) {
		t.Errorf("when one has ended %v, want %v", got, want)
	}
}

// TestCopiedAttributes: a stream keeps the attributes that were copied to it, as they were then.
func TestCopiedAttributes(t *testing.T) {
	const set, copies = gpubackend.OpStreamSetAttribute, gpubackend.OpStreamCopyAttributes
	r := newRig(t, 1<<20)
	x := r.do(gpubackend.OpCtxCreate, 0)
	a, b := r.do(gpubackend.OpStreamCreateWithPriority, x, 0, 0),
		r.do(gpubackend.OpStreamCreateWithPriority, x, 1, 0)
	for _, words := range [][]uint64{{a, 1, 10}, {b, 3, 20}, {streams.Default, 1, 30}} {
		r.do(set, x, words...)
	}
	r.do(copies, x, b, a)
	r.do(copies, x, b, b)
	r.do(set, x, a, 1, 40)
	want := map[uint64]uint64{a: 40, b: 10, streams.Default: 30}
	if got := r.again().set; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r.do(copies, x, a, streams.Legacy) // which is the default one
	r.do(copies, x, streams.Legacy, b)
	want = map[uint64]uint64{a: 30, b: 10, streams.Legacy: 10}
	if got := r.again().set; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r.do(copies, x, b, streams.PerThread) // of which nothing was set
	delete(want, b)
	if got := r.again().set; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// setPriority sets the priority of a stream.
func (r *rig) setPriority(context, stream uint64, priority byte) {
	r.t.Helper()
	words := []uint64{stream, cudaabi.LaunchAttributePriority,
		uint64(wire.BufferInline)<<56 | wire.CommandSize + 32, 4}
	body := append(make([]byte, 32), priority, 0, 0, 0)
	command := &arena.Command{Command: wire.Command{Context: context,
		Op: uint16(gpubackend.OpStreamSetAttribute)}, Body: body}
	command.N = copy(command.Words[:], words)
	c := call.New(&r.buffers)
	c.Start(command)
	result := r.Steps()[c.Op](&c, func(c *call.Call) gpubackend.Result {
		_, result := c.Input(2)
		return result
	})
	if result != gpubackend.Success {
		r.t.Fatal(result)
	}
}

// TestCopiedPriorities: attributes can be copied between streams of one priority alone, and not to
// a thread's own stream.
func TestCopiedPriorities(t *testing.T) {
	const priorities = "different priorities"
	for name, x := range map[string]struct {
		do      func(r *rig, x, low, high uint64) (to, from uint64)
		refused string
	}{
		"the same": {func(r *rig, x, low, high uint64) (to, from uint64) {
			return low, r.do(gpubackend.OpStreamCreateWithPriority, x, 1, 0)
		}, ""},
		"others": {func(r *rig, x, low, high uint64) (to, from uint64) { return low, high },
			priorities},
		"the default one": {func(r *rig, x, low, high uint64) (to, from uint64) {
			return streams.Legacy, high
		}, priorities},
		"set to the same": {func(r *rig, x, low, high uint64) (to, from uint64) {
			r.setPriority(x, low, 1)
			r.setPriority(x, low, 2)
			r.setPriority(x, high, 2)
			return low, high
		}, ""},
		"set to another": {func(r *rig, x, low, high uint64) (to, from uint64) {
			r.setPriority(x, low, 1)
			return low, streams.Default
		}, priorities},
		"a thread's own": {func(r *rig, x, low, high uint64) (to, from uint64) {
			return streams.PerThread, low
		}, attributeOfThread},
		"made otherwise": {func(r *rig, x, low, high uint64) (to, from uint64) { return low, 99 },
			priorities},
	} {
		r := newRig(t, 1<<20)
		c := r.do(gpubackend.OpCtxCreate, 0)
		low := r.do(gpubackend.OpStreamCreateWithPriority, c, 0, 0)
		high := r.do(gpubackend.OpStreamCreateWithPriority, c, 0, ^uint64(4))
		to, from := x.do(r, c, low, high)
		r.do(gpubackend.OpStreamCopyAttributes, c, to, from)
		err := r.Refused()
		if (err == nil) != (x.refused == "") ||
			err != nil && !strings.Contains(err.Error(), x.refused) {
			t.Errorf("%s: %v, want %q", name, err, x.refused)
		}
	}
}
