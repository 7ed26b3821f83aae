// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/copies"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// stagingDriver is a fake device that has staging memory.
type stagingDriver struct{ *fakeDriver }

func (stagingDriver) Staging(uint64) (uint64, int, gpubackend.Result) {
	fd, err := unix.Dup(0)
	if err != nil {
		return 0, -1, gpubackend.Unknown
	}
	return 1 << 40, fd, gpubackend.Success
}

// fakeMover ends copies when the test says so.
type fakeMover struct {
	started  []uint64
	moves    []moves.Move
	ended    []moves.Completion
	attached []uint64 // bytes
	detached []uint32
	refuses  error
}

func (m *fakeMover) Attach(_ int, _, bytes uint64) (uint32, error) {
	m.attached = append(m.attached, bytes)
	return uint32(len(m.attached)), m.refuses
}
func (m *fakeMover) Detach(number uint32) error {
	m.detached = append(m.detached, number)
	return nil
}
func (m *fakeMover) Start(x *moves.Move) error {
	m.started, m.moves = append(m.started, x.ID), append(m.moves, *x)
	return nil
}
func (m *fakeMover) Poll(dst []moves.Completion) ([]moves.Completion, error) {
	dst = append(dst, m.ended...)
	m.ended = nil
	return dst, nil
}
func (m *fakeMover) FD() int      { return 0 }
func (m *fakeMover) Close() error { return nil }

// end ends the oldest copy that goes on.
func (m *fakeMover) end(err error) {
	m.ended = append(m.ended, moves.Completion{ID: m.started[0], Err: err})
	m.started = m.started[1:]
}

func newPartsRig(t *testing.T) (*rig, *fakeMover) {
	r, m := newRig(t), &fakeMover{}
	r.mover = m
	r.use(stagingDriver{r.driver})
	r.policy.StagingBytes = 8 << 20
	r.withQueue(t)
	if err := r.queue.RestoreMaps([]saved.Map{{
		ID: 1, Bytes: 1 << 20, Flags: wire.MapFlagWrite,
		Runs: []wire.Run{{Address: 0, Bytes: 1 << 20}},
	}}); err != nil {
		t.Fatal(err)
	}
	return r, m
}

func (r *rig) sendPart(op gpubackend.Op, bytes uint64) {
	r.send(op, false, 0, nil, 1<<41, wire.BufferMap<<56|1<<32, bytes, bytes, 0, wire.CopyFlagPart)
}

func (r *rig) work(t *testing.T) {
	t.Helper()
	for range 3 { // a copy to the host takes two steps
		if _, err := r.runCommands(); err != nil {
			t.Fatal(err)
		}
		r.pollWaiters()
	}
}

func (r *rig) asyncError() gpubackend.Result {
	return gpubackend.Result(binary.LittleEndian.Uint32(r.mem[wire.ArenaHeaderAsyncErrorOffset:]))
}

// TestJoinWaitsForAllParts: the answer is there when the last of the parts is over, in whatever
// order they end.
func TestJoinWaitsForAllParts(t *testing.T) {
	for _, op := range []gpubackend.Op{gpubackend.OpCopyHtoD, gpubackend.OpCopyDtoH} {
		t.Run(op.Name(), func(t *testing.T) {
			r, m := newPartsRig(t)
			const parts = 12 // more than StagedChunks, so that some have to wait
			for range parts {
				r.sendPart(op, 1<<20)
			}
			r.send(gpubackend.Op(wire.OpJoin), true, 1, nil)
			r.work(t)
			for i := range parts {
				if r.slot().Done != 0 {
					t.Fatalf("answered with %d of %d parts over", i, parts)
				}
				if len(m.started) > copies.StagedChunks || len(m.started) == 0 {
					t.Fatalf("%d parts on their way", len(m.started))
				}
				m.started[0], m.started[len(m.started)-1] = m.started[len(m.started)-1],
					m.started[0]
				m.end(nil)
				r.work(t)
			}
			if s := r.slot(); s.Done != 1 || s.Result != 0 || r.waiting.Len() != 0 {
				t.Fatalf("then: %+v", s)
			}
			if users := r.queue.Find(1).Users(); users != 0 {
				t.Fatalf("%d users of the mapping are left", users)
			}
		})
	}
}

// TestJoinHasTheFirstError: JOIN answers with the first error of its parts, and nothing else has
// it.
func TestJoinHasTheFirstError(t *testing.T) {
	r, m := newPartsRig(t)
	r.sendPart(gpubackend.OpCopyHtoD, 4096)
	r.sendPart(gpubackend.OpCopyHtoD, 2<<20) // more than is mapped
	r.sendPart(gpubackend.OpCopyHtoD, 4096)
	r.send(gpubackend.Op(wire.OpJoin), true, 1, nil)
	r.work(t)
	if r.slot().Done != 0 || len(m.started) != 2 {
		t.Fatalf("answered with %d parts on their way", len(m.started))
	}
	m.end(errors.New("no such page"))
	m.end(nil)
	r.work(t)
	if s := r.slot(); s.Done != 1 || gpubackend.Result(s.Result) != gpubackend.InvalidValue {
		t.Fatalf("answer %+v", s)
	}
	if got := r.asyncError(); got != gpubackend.Success {
		t.Fatalf("async error %d", got)
	}
	if got := r.call(t, gpubackend.Op(wire.OpJoin)); got != gpubackend.Success {
		t.Fatalf("the next JOIN: %d", got)
	}
}

// TestJoinIsForWhatIsBeforeIt: parts that follow a JOIN belong to the next one.
func TestJoinIsForWhatIsBeforeIt(t *testing.T) {
	r, m := newPartsRig(t)
	r.sendPart(gpubackend.OpCopyDtoH, 4096)
	r.send(gpubackend.Op(wire.OpJoin), true, 1, nil)
	r.work(t)
	r.sendPart(gpubackend.OpCopyDtoH, 4096)
	r.work(t)
	m.end(nil)
	r.work(t)
	if r.slot().Done != 1 {
		t.Fatal("JOIN waits for a part that came after it")
	}
	if got := r.call(t, gpubackend.Op(wire.OpJoin)); got != call.Pending {
		t.Fatalf("the next JOIN didn't wait: %d", got)
	}
	m.end(nil)
	r.work(t)
	if s := r.slot(); s.Done != 2 || s.Result != 0 {
		t.Fatalf("then: %+v", s)
	}
}

// TestCopiesWithoutAnswer: a copy that nobody waits for can't use a mapping.
func TestCopiesWithoutAnswer(t *testing.T) {
	r, m := newPartsRig(t)
	r.send(gpubackend.OpCopyDtoH, false, 0, nil, 1<<41, wire.BufferMap<<56|1<<32, 64, 64, 0, 0)
	r.send(gpubackend.Op(wire.OpJoin), false, 0, nil)
	r.work(t)
	if len(m.started) != 0 || r.asyncError() != gpubackend.InvalidValue {
		t.Fatalf("%d copies, async error %d", len(m.started), r.asyncError())
	}
}
