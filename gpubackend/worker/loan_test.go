// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/memory"
)

// lendingDriver is a fake device with one segment of memory, at lentBase.
type lendingDriver struct {
	stagingDriver
	gone func(addr, bytes uint64)
}

const (
	lentBase  = 1 << 41
	lentBytes = 32 << 20
)

func (d *lendingDriver) Share(addr uint64) (s gpubackend.Shared, fd int, result gpubackend.Result) {
	if addr-lentBase >= lentBytes {
		return s, -1, gpubackend.InvalidValue
	}
	fd, err := unix.Dup(0)
	if err != nil {
		return s, -1, gpubackend.Unknown
	}
	return gpubackend.Shared{Bytes: lentBytes, Offset: addr - lentBase}, fd, gpubackend.Success
}
func (d *lendingDriver) Watch(gone func(addr, bytes uint64)) { d.gone = gone }

func newLoanRig(t *testing.T) (*rig, *lendingDriver, *fakeMover) {
	r, m := newPartsRig(t)
	d := &lendingDriver{stagingDriver: stagingDriver{r.driver}}
	r.use(d)
	return r, d, m
}

// sendCopy sends a copy by reference that is no part.
func (r *rig) sendCopy(op gpubackend.Op, seq uint32, address, bytes uint64) {
	r.send(op, true, seq, nil, address, wire.BufferMap<<56|1<<32, bytes, bytes, 0, 0)
}

// TestCopiesGoStraight: what the mover can map it copies to and from itself, and it is asked to map
// it once.
func TestCopiesGoStraight(t *testing.T) {
	const bytes, offset = 1 << 20, 4096
	for _, op := range []gpubackend.Op{gpubackend.OpCopyHtoD, gpubackend.OpCopyDtoH} {
		t.Run(op.Name(), func(t *testing.T) {
			r, d, m := newLoanRig(t)
			for i := range uint32(3) {
				r.sendCopy(op, i+1, lentBase+offset, bytes)
				r.work(t)
				if len(m.started) != 1 || r.slot().Done == i+1 {
					t.Fatalf("%d copies started, %+v", len(m.started), r.slot())
				}
				if x := m.moves[i]; x.Staging != 1 || x.Offset != offset ||
					x.ToDevice != (op == gpubackend.OpCopyHtoD) {
					t.Fatalf("%+v", x)
				}
				m.end(nil)
				r.work(t)
				if s := r.slot(); s.Done != i+1 || s.Result != 0 {
					t.Fatalf("after the copy: %+v", s)
				}
			}
			if len(m.attached) != 1 || m.attached[0] != lentBytes {
				t.Fatalf("lent %v", m.attached)
			}
			d.gone(lentBase, lentBytes)
			if len(m.detached) != 1 || m.detached[0] != 1 {
				t.Fatalf("taken back: %v", m.detached)
			}
			r.sendCopy(op, 9, lentBase, bytes)
			r.work(t)
			if len(m.attached) != 2 {
				t.Fatalf("memory at the same address again: lent %v", m.attached)
			}
		})
	}
}

// TestStraightCopiesWaitForEarlierWork: the mover isn't asked before the stream is there. A lone
// copy to the device goes through staging memory instead, so that its caller need not wait for the
// stream.
func TestStraightCopiesWaitForEarlierWork(t *testing.T) {
	tests := []struct {
		name   string
		send   func(r *rig)
		waits  bool
		passes int // through staging memory
	}{
		{"from the device", func(r *rig) { r.sendCopy(gpubackend.OpCopyDtoH, 1, lentBase, 4096) },
			true, 0},
		{"parts from the device", func(r *rig) { r.sendPart(gpubackend.OpCopyDtoH, 4096) }, true,
			0},
		{"parts to the device", func(r *rig) { r.sendPart(gpubackend.OpCopyHtoD, 4096) }, true, 0},
		{"to the device", func(r *rig) { r.sendCopy(gpubackend.OpCopyHtoD, 1, lentBase, 4096) },
			false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, _, m := newLoanRig(t)
			r.driver.ready = gpubackend.NotReady
			tt.send(r)
			r.work(t)
			if waits := len(m.started) == 0; waits != tt.waits {
				t.Fatalf("waits: %v", waits)
			}
			r.driver.ready = gpubackend.Success
			r.work(t)
			if len(m.started) != 1 {
				t.Fatalf("%d copies started", len(m.started))
			}
			passes := 0
			for _, bytes := range m.attached {
				if bytes != lentBytes {
					passes++
				}
			}
			if passes != tt.passes {
				t.Fatalf("lent %v", m.attached)
			}
		})
	}
}

// TestStraightCopyOfADeadContext: the context's error is the copy's, and the mover isn't asked.
func TestStraightCopyOfADeadContext(t *testing.T) {
	r, _, m := newLoanRig(t)
	r.driver.ready = gpubackend.IllegalAddress
	r.sendCopy(gpubackend.OpCopyDtoH, 1, lentBase, 4096)
	r.work(t)
	if s := r.slot(); s.Done != 1 || gpubackend.Result(s.Result) != gpubackend.IllegalAddress ||
		len(m.started) != 0 {
		t.Fatalf("%+v, %d started", s, len(m.started))
	}
}

// TestMemoryThatIsNotLent goes through staging memory: what the driver can't share, what the mover
// refuses, what leaves the segment, and rows with gaps.
func TestMemoryThatIsNotLent(t *testing.T) {
	copies := map[string]func(r *rig, m *fakeMover){
		"no segment": func(r *rig,
			_ *fakeMover) {
			r.sendCopy(gpubackend.OpCopyDtoH, 1, 1<<42, 4096)
		},
		"leaves the segment": func(r *rig, _ *fakeMover) {
			r.sendCopy(gpubackend.OpCopyDtoH, 1, lentBase+lentBytes-4095, 4096)
		},
		"refused": func(r *rig, m *fakeMover) {
			m.refuses = errors.New("refused")
			r.sendCopy(gpubackend.OpCopyDtoH, 1, lentBase, 4096)
			r.work(t)
			m.refuses = nil
		},
		"rows with gaps": func(r *rig, _ *fakeMover) {
			r.send(gpubackend.OpCopyBox, true, 1, nil, lentBase, 512, 0, wire.BufferMap<<56|1<<32,
				1<<20, 256, 0, 256, 4, 1, command.BoxDtoh, 0, 0)
		},
	}
	for name, send := range copies {
		t.Run(name, func(t *testing.T) {
			r, _, m := newLoanRig(t)
			send(r, m)
			r.work(t)
			for _, x := range m.moves {
				if m.attached[x.Staging-1] == lentBytes {
					t.Errorf("%+v went directly, lent %v", x, m.attached)
				}
			}
			if name != "refused" && len(m.moves) == 0 {
				t.Error("nothing was copied")
			}
		})
	}
}

// TestMemoryGoesDuringACopy: what the mover doesn't have yet is no longer copied.
func TestMemoryGoesDuringACopy(t *testing.T) {
	r, d, m := newLoanRig(t)
	r.sendCopy(gpubackend.OpCopyDtoH, 1, lentBase, 4096)
	r.driver.ready = gpubackend.NotReady
	r.work(t)
	d.gone(lentBase, lentBytes)
	r.driver.ready = gpubackend.Success
	r.work(t)
	if s := r.slot(); s.Done != 1 || gpubackend.Result(s.Result) != gpubackend.InvalidValue ||
		len(m.started) != 0 {
		t.Fatalf("%+v, %d started", s, len(m.started))
	}
}

func (d *lendingDriver) ExportMemory(gpubackend.Memory) (int, gpubackend.Result) {
	fd, err := unix.Dup(0)
	if err != nil {
		return -1, gpubackend.Unknown
	}
	return fd, gpubackend.Success
}
func (d *lendingDriver) UnmapMemory(uint64, uint64) gpubackend.Result { return gpubackend.Success }
func (d *lendingDriver) Protect(uint64, uint64, uint64, uint64) gpubackend.Result {
	return gpubackend.Success
}
func (d *lendingDriver) Reserve(uint64, uint64) gpubackend.Result { return gpubackend.Success }
func (d *lendingDriver) CreateMemory(
	uint64, uint64, uint64,
) (gpubackend.Memory, gpubackend.Result) {
	return 1, gpubackend.Success
}
func (d *lendingDriver) MapMemory(uint64, uint64, gpubackend.Memory) gpubackend.Result {
	return gpubackend.Success
}
func (d *lendingDriver) ReleaseMemory(gpubackend.Memory) gpubackend.Result {
	return gpubackend.Success
}

// TestMappedMemoryIsLent for as long as the guest may write it.
func TestMappedMemoryIsLent(t *testing.T) {
	const page = gpubackend.Granularity
	for name, end := range map[string]struct {
		op   gpubackend.Op
		more []uint64
	}{
		"unmapped":  {op: gpubackend.OpMemUnmap},
		"read only": {gpubackend.OpMemSetAccess, []uint64{0, gpubackend.AccessRead}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, m := newLoanRig(t)
			r.want(t, 0, gpubackend.OpMemAddressReserve, memory.ReserveBase, 3*page)
			for _, x := range []struct{ base, bytes, access uint64 }{
				{memory.ReserveBase, page, gpubackend.AccessRead},
				{memory.ReserveBase + page, 2 * page, gpubackend.AccessReadWrite},
			} {
				h := r.want(t, 0, gpubackend.OpMemCreate, x.bytes, 0, 0)
				r.want(t, 0, gpubackend.OpMemMap, x.base, x.bytes, h)
				r.want(t, 0, gpubackend.OpMemSetAccess, x.base, x.bytes, 0, x.access)
			}
			copies := []struct {
				address uint64
				direct  bool
			}{{memory.ReserveBase, false}, {memory.ReserveBase + page, true},
				{memory.ReserveBase + 3*page - 4096, true},
				{memory.ReserveBase + 3*page - 4095, false}}
			for i, c := range copies {
				r.sendCopy(gpubackend.OpCopyDtoH, uint32(i+1), c.address, 4096)
				r.work(t)
				last := m.moves[len(m.moves)-1]
				direct := m.attached[last.Staging-1] == 2*page
				if direct != c.direct ||
					direct && last.Offset != c.address-memory.ReserveBase-page {
					t.Errorf("copy %d: %+v, lent %v", i, last, m.attached)
				}
				m.end(nil)
				r.work(t)
			}
			r.want(t, 0, end.op,
				append([]uint64{memory.ReserveBase + page, 2 * page}, end.more...)...)
			if len(m.detached) != 1 {
				t.Fatalf("%d taken back", len(m.detached))
			}
			r.sendCopy(gpubackend.OpCopyDtoH, 9, memory.ReserveBase+page, 4096)
			r.work(t)
			if last := m.moves[len(m.moves)-1]; last.Staging == m.detached[0] {
				t.Errorf("copied although it was taken back: %+v", last)
			}
		})
	}
}
