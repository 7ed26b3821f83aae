// SPDX-License-Identifier: Apache-2.0

package again

import (
	"bytes"
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

const bulk = uint64(wire.BufferBulk) << valueBits

// rig is a guest with a bulk area.
type rig struct {
	bulk    []byte
	buffers call.Buffers
	taker   *Taker
}

func newRig() *rig {
	r := &rig{bulk: []byte("image.options..log")}
	r.buffers = call.Buffers{
		Bulk: func(offset, n uint64) ([]byte, error) {
			if offset > uint64(len(r.bulk)) || n > uint64(len(r.bulk))-offset {
				return nil, errors.New("beyond the bulk area")
			}
			return r.bulk[offset : offset+n], nil
		},
		Copied: func(uint64) {},
	}
	r.taker = New(&r.buffers)
	return r
}

func (r *rig) start(words ...uint64) *call.Call {
	command := &arena.Command{Command: wire.Command{Op: 280, Context: 7}}
	command.N = copy(command.Words[:], words)
	c := call.New(&r.buffers)
	c.Start(command)
	return &c
}

// loads is a handler with two inputs, a number, and an output; it notes what it was given.
func loads(got *[]string) func(*call.Call) gpubackend.Result {
	return func(c *call.Call) gpubackend.Result {
		for _, i := range []int{0, 2} {
			b, result := c.Input(i)
			if result != gpubackend.Success {
				return result
			}
			*got = append(*got, string(b))
		}
		out, result := c.Output(5)
		if result != gpubackend.Success {
			return result
		}
		copy(out.Bytes, "LOG")
		out.Done()
		if c.Word(4) != 42 {
			return gpubackend.InvalidValue
		}
		return gpubackend.Success
	}
}

// TestExecutedAgain: when a command is executed again, its handler gets the same input, though the
// guest has changed its memory, and its output isn't written there.
func TestExecutedAgain(t *testing.T) {
	for name, words := range map[string][]uint64{
		"two":      {bulk, 5, bulk | 6, 7, 42, bulk | 15, 3},
		"the same": {bulk, 5, bulk, 5, 42, bulk | 15, 3},
		"without":  {bulk, 5, 0, 0, 42, 0, 0},
		"empty":    {bulk, 5, bulk | 6, 0, 42, bulk | 15, 0},
	} {
		r := newRig()
		var first, second []string
		e, result, err := r.taker.Run(r.start(words...), loads(&first))
		if err != nil || result != gpubackend.Success || r.buffers.Used != nil {
			t.Fatalf("%s: %v, %v", name, result, err)
		}
		if e.Op != 280 || e.Context != 7 {
			t.Errorf("%s: %+v", name, e)
		}
		r.bulk = bytes.Repeat([]byte{'x'}, len(r.bulk))
		before := bytes.Clone(r.bulk)
		var command arena.Command
		if err := Command(&e, &command); err != nil {
			t.Fatal(err)
		}
		c := call.New(&r.buffers)
		c.Start(&command)
		if result := loads(&second)(&c); result != gpubackend.Success {
			t.Errorf("%s: again: %v", name, result)
		}
		if len(second) != 2 || first[0] != second[0] || first[1] != second[1] {
			t.Errorf("%s: %q, then %q", name, first, second)
		}
		if !bytes.Equal(r.bulk, before) {
			t.Errorf("%s: it wrote to the guest's memory", name)
		}
	}
}

func TestNotTaken(t *testing.T) {
	r := newRig()
	var got []string
	e, result, err := r.taker.Run(r.start(bulk, 5, bulk, 99, 42, 0, 0), loads(&got))
	if result != gpubackend.InvalidValue || err != nil || e.Words != nil {
		t.Errorf("one that fails: %+v, %v, %v", e, result, err)
	}
	_, result, err = r.taker.Run(r.start(1, 2), func(c *call.Call) gpubackend.Result {
		_, result := c.InputOf(call.ReferenceOf(bulk, 5))
		return result
	})
	if result != gpubackend.Success || err == nil {
		t.Errorf("a buffer that isn't in its words: %v, %v", result, err)
	}
	var command arena.Command
	long := journal.Executed{Words: make([]uint64, len(command.Words)+1)}
	if err := Command(&long, &command); !errors.Is(err, ErrCommand) {
		t.Errorf("too many words: %v", err)
	}
}
