// SPDX-License-Identifier: Apache-2.0

package shortage

import (
	"io"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

type rig struct {
	*Shortage
	lacks uint64
	asked []uint64
	err   error
}

func newRig() *rig {
	r := &rig{}
	r.Shortage = New(Config{
		Lacks: func() uint64 {
			n := r.lacks
			r.lacks = 0
			return n
		},
		Ask: func(bytes uint64) error {
			r.asked = append(r.asked, bytes)
			return r.err
		},
	})
	return r
}

// fails says whether a command that lacks memory fails.
func (r *rig) fails(op gpubackend.Op, lacks uint64) bool {
	r.lacks = lacks
	return !r.Stops(op)
}

// TestRoomIsAskedFor: a command that can be executed again waits for room. It is executed again
// when there is an answer, and fails if that is no.
func TestRoomIsAskedFor(t *testing.T) {
	r := newRig()
	if r.fails(gpubackend.OpMemAlloc, 7) || !r.Waits() || !slices.Equal(r.asked, []uint64{7}) {
		t.Fatalf("waits %v, asked for %v", r.Waits(), r.asked)
	}
	r.Answered(false)
	if r.Waits() || r.fails(gpubackend.OpMemAlloc, 5) || len(r.asked) != 2 {
		t.Errorf("with too little room: waits %v, asked for %v", r.Waits(), r.asked)
	}
	r.Answered(true)
	if r.Waits() || !r.fails(gpubackend.OpMemAlloc, 5) || r.Waits() || len(r.asked) != 2 {
		t.Errorf("without room: waits %v, asked for %v", r.Waits(), r.asked)
	}
	if r.fails(gpubackend.OpMemAlloc, 3) || len(r.asked) != 3 {
		t.Error("the next command is refused, too")
	}
}

// TestNothingToAskFor: a command fails if it can't be executed again, if it lacks something other
// than room, or if nobody can be asked.
func TestNothingToAskFor(t *testing.T) {
	r := newRig()
	if !r.fails(gpubackend.OpModuleLoadData, 7) || !r.fails(gpubackend.OpMemAlloc, 0) ||
		len(r.asked) > 0 || r.Waits() {
		t.Errorf("waits %v, asked for %v", r.Waits(), r.asked)
	}
	r.err = io.ErrClosedPipe
	if !r.fails(gpubackend.OpMemAlloc, 7) || r.Waits() {
		t.Error("it waits for somebody who isn't there")
	}
	r.Answered(true) // to nothing
	r.err = nil
	if r.fails(gpubackend.OpMemAlloc, 7) {
		t.Error("an answer to nothing refuses a command")
	}
}
