// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/faults"
)

// fullDriver has no room for staging memory while full is positive, and counts the memory that it
// has given.
type fullDriver struct {
	lendingDriver
	full   int // tries that fail
	staged int
	blocks int // of memory that it has given, and not got back
}

func (d *fullDriver) Staging(bytes uint64) (uint64, int, gpubackend.Result) {
	if d.full > 0 {
		d.full--
		return 0, -1, gpubackend.OutOfMemory
	}
	d.staged++
	return d.lendingDriver.Staging(bytes)
}

func (d *fullDriver) Unstage(uint64) { d.staged-- }

func (d *fullDriver) MemAlloc(uint64) (uint64, gpubackend.Result) {
	d.blocks++
	return 1 << 43, gpubackend.Success
}

func (d *fullDriver) MemAllocNow(bytes uint64) (uint64, bool, gpubackend.Result) {
	address, result := d.MemAlloc(bytes)
	return address, false, result
}

func (d *fullDriver) MemFree(uint64) gpubackend.Result { d.blocks--; return gpubackend.Success }

func newFullRig(t *testing.T, full int) (*rig, *fullDriver, *fakeMover) {
	r, m := newPartsRig(t)
	d := &fullDriver{lendingDriver: lendingDriver{stagingDriver: stagingDriver{r.driver}},
		full: full}
	r.use(d)
	return r, d, m
}

// unlent is memory that can't be lent.
const unlent = 1 << 42

// copyAt sends a single copy, has the mover make it, and returns its result.
func (r *rig) copyAt(
	t *testing.T, m *fakeMover, op gpubackend.Op, seq uint32, address uint64,
) gpubackend.Result {
	t.Helper()
	r.sendCopy(op, seq, address, 4096)
	r.work(t)
	for len(m.started) > 0 {
		m.end(nil)
		r.work(t)
	}
	if s := r.slot(); s.Done == seq {
		return gpubackend.Result(s.Result)
	}
	return call.Pending
}

// TestStagingMemoryIsShortForOneCopy: the copy that finds no staging memory fails, and no other.
func TestStagingMemoryIsShortForOneCopy(t *testing.T) {
	for _, op := range []gpubackend.Op{gpubackend.OpCopyHtoD, gpubackend.OpCopyDtoH} {
		t.Run(op.Name(), func(t *testing.T) {
			r, d, m := newFullRig(t, 1)
			if got := r.copyAt(t, m, op, 1, unlent); got != gpubackend.OutOfMemory {
				t.Fatalf("without memory: %d", got)
			}
			if got := r.copyAt(t, m, op, 2, unlent); got != gpubackend.Success {
				t.Errorf("with memory: %d", got)
			}
			if got := r.copyAt(t, m, op, 3, lentBase); got != gpubackend.Success {
				t.Errorf("direct: %d", got)
			}
			if users := r.queue.Find(1).Users(); users != 0 || d.staged != 1 {
				t.Errorf("%d users of the mapping, %d staging memories", users, d.staged)
			}
		})
	}
}

// TestCopyWithoutStagingMemoryGoesStraight: memory is full and the GPU busy, as it is when a
// program fills its memory.
func TestCopyWithoutStagingMemoryGoesStraight(t *testing.T) {
	r, _, m := newFullRig(t, 1000)
	r.driver.ready = gpubackend.NotReady
	if got := r.copyAt(t, m, gpubackend.OpCopyHtoD, 1, lentBase); got != call.Pending ||
		len(m.moves) != 0 {
		t.Fatalf("before the earlier work was done: %d, %d copies", got, len(m.moves))
	}
	r.driver.ready = gpubackend.Success
	r.work(t)
	if len(m.moves) != 1 || m.attached[m.moves[0].Staging-1] != lentBytes {
		t.Fatalf("copied %+v, lent %v", m.moves, m.attached)
	}
	m.end(nil)
	r.work(t)
	if s := r.slot(); s.Done != 1 || s.Result != 0 {
		t.Fatalf("%+v", s)
	}
}

// TestPoolsGiveMemoryForStaging: a copy doesn't fail for want of memory that pools keep.
func TestPoolsGiveMemoryForStaging(t *testing.T) {
	r, d, m := newFullRig(t, 1)
	p := r.want(t, 0, gpubackend.OpPoolDefault, 0)
	const threshold = 4 // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
	r.want(t, 0, gpubackend.OpMemPoolSetAttribute, p, threshold, 1<<30)
	a := r.want(t, 0, gpubackend.OpMemAllocAsync, 4096, p, 0)
	r.want(t, 0, gpubackend.OpMemFreeAsync, a, 0)
	if d.blocks != 1 {
		t.Fatalf("%d blocks are kept", d.blocks)
	}
	if got := r.copyAt(t, m, gpubackend.OpCopyHtoD, 9, unlent); got != gpubackend.Success ||
		d.blocks != 0 {
		t.Fatalf("%d, %d blocks are kept", got, d.blocks)
	}
}

// TestMoverRefusesStaging: the memory goes back, and the next copy tries again. A mover that is
// gone fails them all.
func TestMoverRefusesStaging(t *testing.T) {
	r, d, m := newFullRig(t, 0)
	m.refuses = moves.ErrRefused
	if got := r.copyAt(t, m, gpubackend.OpCopyHtoD, 1, unlent); got != gpubackend.OutOfMemory ||
		d.staged != 0 {
		t.Fatalf("refused: %d, %d staging memories", got, d.staged)
	}
	m.refuses = nil
	if got := r.copyAt(t, m, gpubackend.OpCopyHtoD, 2, lentBase); got != gpubackend.Success {
		t.Fatalf("direct: %d", got)
	}
	m.refuses = errors.New("broken pipe")
	if got := r.copyAt(t, m, gpubackend.OpCopyHtoD, 3,
		unlent); got != gpubackend.DeviceUnavailable || d.staged != 0 {
		t.Fatalf("gone: %d, %d staging memories", got, d.staged)
	}
	if got := r.copyAt(t, m, gpubackend.OpCopyHtoD, 4,
		lentBase); got != gpubackend.DeviceUnavailable {
		t.Fatalf("direct without a mover: %d", got)
	}
}

// TestTheMoversGPUIsLost: a copy that the mover can't make since the GPU is broken, or gone, fails
// with CUDA's error, which the device process is told. What else the GPU says to the mover isn't
// the program's.
func TestTheMoversGPUIsLost(t *testing.T) {
	for _, test := range []struct{ says, refused, failed gpubackend.Result }{
		{gpubackend.Unknown, gpubackend.Unknown, gpubackend.Unknown},
		{gpubackend.ECCUncorrectable, gpubackend.ECCUncorrectable, gpubackend.ECCUncorrectable},
		{gpubackend.IllegalAddress, gpubackend.OutOfMemory, gpubackend.InvalidValue},
		{gpubackend.OutOfMemory, gpubackend.OutOfMemory, gpubackend.InvalidValue},
	} {
		t.Run(test.says.String(), func(t *testing.T) {
			r, _, m := newFullRig(t, 0)
			told := 0
			r.faults = faults.New(func() int { return 0 }, func(*handover.Message) error {
				told++
				return nil
			})
			m.refuses = errors.Join(moves.ErrRefused, test.says.Err())
			if got := r.copyAt(t, m, gpubackend.OpCopyHtoD, 1, unlent); got != test.refused {
				t.Errorf("refused: %v, want %v", got, test.refused)
			}
			m.refuses = nil
			r.sendCopy(gpubackend.OpCopyHtoD, 2, lentBase, 4096)
			r.work(t)
			m.end(test.says.Err())
			r.work(t)
			if s := r.slot(); s.Done != 2 || gpubackend.Result(s.Result) != test.failed {
				t.Errorf("failed: %+v, want %v", s, test.failed)
			}
			if told == 1 != test.says.OfGPU() {
				t.Errorf("told %d times", told)
			}
		})
	}
}

// TestTheMoverLacksMemory: what it can't map for lack of the GPU's memory is lent by a later copy.
// What it can't map for another reason isn't.
func TestTheMoverLacksMemory(t *testing.T) {
	for says, again := range map[gpubackend.Result]bool{
		gpubackend.OutOfMemory: true, gpubackend.InvalidValue: false,
	} {
		t.Run(says.String(), func(t *testing.T) {
			r, _, m := newFullRig(t, 0)
			m.refuses = errors.Join(moves.ErrRefused, says.Err())
			r.copyAt(t, m, gpubackend.OpCopyDtoH, 1, lentBase)
			m.refuses = nil
			r.copyAt(t, m, gpubackend.OpCopyDtoH, 2, lentBase)
			lent := m.attached[len(m.attached)-1] == lentBytes
			if lent != again {
				t.Errorf("lent %v, want the memory itself last: %t", m.attached, again)
			}
		})
	}
}
