// SPDX-License-Identifier: Apache-2.0

package history

import (
	"errors"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/again"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// rig is a program with contexts and streams, and settings of them.
type rig struct {
	*History
	t       *testing.T
	objects object.Table
	buffers call.Buffers
	next    uint64
	set     map[uint64]uint64 // attributes of streams, by the stream
	peers   map[[2]uint64]bool
}

func newRig(t *testing.T, memory uint64) *rig {
	r := &rig{t: t, set: map[uint64]uint64{}, peers: map[[2]uint64]bool{}}
	r.buffers.Copied = func(uint64) {}
	r.History = New(Config{Objects: &r.objects, Buffers: &r.buffers, Memory: budget.New(memory)})
	return r
}

// handle is the handler of all commands.
func (r *rig) handle(c *call.Call) gpubackend.Result {
	r.next++
	switch c.Op {
	case gpubackend.OpCtxCreate:
		c.Answer(r.objects.Add(object.Context, r.next, 0))
	case gpubackend.OpStreamCreateWithPriority:
		if !r.objects.Has(c.Context) {
			return gpubackend.InvalidContext
		}
		c.Answer(r.objects.Add(object.Stream, r.next, c.Context))
	case gpubackend.OpStreamSetAttribute:
		r.set[c.Word(0)] = c.Word(2)
	case gpubackend.OpCtxEnablePeerAccess, gpubackend.OpCtxDisablePeerAccess:
		r.peers[[2]uint64{c.Context, c.Word(0)}] = c.Op == gpubackend.OpCtxEnablePeerAccess
	case gpubackend.OpModuleGetFunction:
		r.objects.Add(object.Function, 1, 0) // of which it says nothing
	}
	return gpubackend.Success
}

func (r *rig) run(c *call.Call) gpubackend.Result {
	if step := r.Steps()[c.Op]; step != nil {
		return step(c, r.handle)
	}
	return r.handle(c)
}

func (r *rig) do(op gpubackend.Op, context uint64, words ...uint64) (made uint64) {
	r.t.Helper()
	command := &arena.Command{Command: wire.Command{Op: uint16(op), Context: context}}
	command.N = copy(command.Words[:], words)
	c := call.New(&r.buffers)
	c.Start(command)
	if result := r.run(&c); result != gpubackend.Success {
		r.t.Fatalf("%s: %d", op.Name(), result)
	}
	if a := c.Answers(); len(a) > 0 {
		return a[0]
	}
	return 0
}

// TestHistory: another program gets the same objects with the same settings, though what made some
// is gone.
func TestHistory(t *testing.T) {
	r := newRig(t, 1<<20)
	a := r.do(gpubackend.OpCtxCreate, 0)
	b := r.do(gpubackend.OpCtxCreate, a)
	gone := r.do(gpubackend.OpStreamCreateWithPriority, a)
	s := r.do(gpubackend.OpStreamCreateWithPriority, b)
	for value := range uint64(3) {
		r.do(gpubackend.OpStreamSetAttribute, b, s, 1, value)
	}
	r.do(gpubackend.OpStreamQuery, b, s) // isn't kept
	r.objects.Remove(gone)
	r.objects.Remove(a) // what was made with it current stays
	list, err := r.Executed(0)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d commands, %v", len(list), err)
	}
	other := newRig(t, 1<<20)
	var made []uint64
	err = other.Replay(list, other.run, func([]uint64) error { return nil },
		func(handles []uint64) error {
			made = append(made, handles...)
			if len(made) == 1 { // as the table of objects would have it
				other.objects = object.Table{}
				other.objects.Add(object.Kernel, 0, 0)
				other.objects.Add(object.Context, 0, 0)
				other.objects.Add(object.Kernel, 0, 0)
			}
			return nil
		})
	if err != nil || len(made) != 2 || made[0] != b || made[1] != s || other.set[s] != 2 {
		t.Fatalf("%#x, set %v, %v", made, other.set, err)
	}
	no := errors.New("no")
	fails := func([]uint64) error { return no }
	if err := other.Replay(list, other.run, fails, fails); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	strange := []journal.Executed{{Op: uint16(gpubackend.OpLaunchKernel)}}
	if err := other.Replay(strange, other.run, fails, fails); !errors.Is(err, again.ErrCommand) {
		t.Errorf("%v", err)
	}
}

// TestRefused: a program that has done what isn't kept can never be saved again, and the error says
// what that was.
func TestRefused(t *testing.T) {
	for text, do := range map[string]func(r *rig, context uint64){
		"ModuleLoadManaged": func(r *rig, x uint64) {
			r.do(gpubackend.OpModuleLoadManaged, x)
		},
		"a thread's own stream": func(r *rig, x uint64) {
			r.do(gpubackend.OpStreamSetAttribute, x, 2, 1, 5, 64) // the value is a buffer
		},
		"made more than it said": func(r *rig, x uint64) {
			r.do(gpubackend.OpModuleGetFunction, x)
		},
		"take more than": func(r *rig, x uint64) {
			for range 1000 {
				r.do(gpubackend.OpStreamCreateWithPriority, x)
			}
		},
	} {
		r := newRig(t, 64<<10)
		x := r.do(gpubackend.OpCtxCreate, 0)
		if r.Refused() != nil {
			t.Fatal(r.Refused())
		}
		do(r, x)
		_, err := r.Executed(0)
		if err == nil || !strings.Contains(err.Error(), text) || r.Refused() == nil ||
			r.Memory.Used() != 0 {
			t.Errorf("%s: %v, %d bytes", text, err, r.Memory.Used())
		}
	}
}

// BenchmarkKept makes streams and drops them, with the step that keeps what made them and without.
func BenchmarkKept(b *testing.B) {
	for _, kept := range []bool{true, false} {
		b.Run(map[bool]string{true: "kept", false: "not kept"}[kept], func(b *testing.B) {
			r := newRig(nil, 1<<20)
			context := r.objects.Add(object.Context, 1, 0)
			command := &arena.Command{Command: wire.Command{
				Op: uint16(gpubackend.OpStreamCreateWithPriority), Context: context}, N: 2}
			step, run := r.Steps()[gpubackend.OpStreamCreateWithPriority], r.handle
			if kept {
				run = func(c *call.Call) gpubackend.Result { return step(c, r.handle) }
			}
			c := call.New(&r.buffers)
			for b.Loop() {
				c.Start(command)
				if result := run(&c); result != gpubackend.Success {
					b.Fatal(result)
				}
				r.objects.Remove(c.Answers()[0])
			}
		})
	}
}
