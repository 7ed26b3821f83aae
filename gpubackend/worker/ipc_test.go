// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/offers/offerstest"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
	"github.com/paracuda/paracuda/internal/leaks"
)

// hub is the device process of the rigs.
var hub = offerstest.New()

// offered is how many allocations are offered.
func (r *rig) offered() int {
	memory, _ := r.sharing.Offered()
	return memory
}

// nameIn is the name in an answer.
func nameIn(r *rig) [16]byte {
	var a command.IpcGetMemHandleAnswer
	s := r.slot()
	a.Read(&s.Word)
	return a.Name
}

// TestAnAllocationIsOfferedOnce, whatever addresses in it a hostile guest names, until its memory
// is freed or its context ends.
func TestAnAllocationIsOfferedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		free  func(r *rig, address uint64)
		after gpubackend.Result // of another offer
	}{
		"freed": {func(r *rig, a uint64) { r.want(t, 0, gpubackend.OpMemFree, a) },
			gpubackend.InvalidValue},
		"freed in time": {func(r *rig, a uint64) {
			r.want(t, 0, gpubackend.OpMemFreeAsync, a, 0)
			r.pools.Settle() // the stream got there: the driver has the memory back
		}, gpubackend.InvalidValue},
		"context ends": {func(r *rig, a uint64) { r.sharing.Forget(r.context) },
			gpubackend.Success},
		"memory ends": {func(r *rig, a uint64) { r.Worker.driver.MemFree(a) },
			gpubackend.InvalidValue},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := exporter(t, oneBase)
			a, tokens := r.want(t, 0, gpubackend.OpMemAlloc, 8*piece), map[[16]byte]bool{}
			files := leaks.Descriptors(t)
			for i := range uint64(1000) {
				result := r.call(t, gpubackend.OpIpcGetMemHandle, a+i*4096)
				if want := map[bool]gpubackend.Result{true: gpubackend.Success,
					false: gpubackend.InvalidValue}[i == 0]; result != want {
					t.Fatalf("offset %#x: %d, want %d", i*4096, result, want)
				}
				if result == gpubackend.Success {
					tokens[nameIn(r)] = true
				}
			}
			r.want(t, 0, gpubackend.OpIpcGetMemHandle, a)
			tokens[nameIn(r)] = true
			if r.offered() != 1 || len(tokens) != 1 {
				t.Errorf("%d names, %d offers of one allocation", len(tokens), r.offered())
			}
			other, end := hub.Worker()
			defer end()
			for token := range tokens {
				if _, fd, err := other.ReceiveMemory(token); err != nil {
					t.Errorf("what is offered isn't given: %v", err)
				} else {
					closeFiles([]int{fd})
				}
			}
			tt.free(r, a)
			if r.offered() != 0 {
				t.Errorf("%d offers are left", r.offered())
			}
			for token := range tokens {
				if _, fd, err := other.ReceiveMemory(token); err == nil {
					t.Error("it is given after its end")
					closeFiles([]int{fd})
				}
			}
			for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				if n := leaks.Descriptors(t); n <= files {
					break // what was given is closed, too
				} else if time.Now().After(end) {
					t.Fatalf("%d files are open, %d before it was offered", n, files)
				}
			}
			if result := r.call(t, gpubackend.OpIpcGetMemHandle, a); result != tt.after {
				t.Errorf("offered again: %d, want %d", result, tt.after)
			}
		})
	}
}

// TestMappedMemoryIsForgotten with its context.
func TestMappedMemoryIsForgotten(t *testing.T) {
	one, _ := exporter(t, oneBase)
	other, _ := exporter(t, otherBase)
	a := one.want(t, 0, gpubackend.OpMemAlloc, 512)
	one.want(t, 0, gpubackend.OpIpcGetMemHandle, a)
	s := one.slot()
	other.want(t, 0, gpubackend.OpIpcOpenMemHandle, copyOf(s.Word[:5])...)
	whole := other.slot().Word[1]
	other.sharing.Forget(other.context)
	other.want(t, gpubackend.InvalidValue, gpubackend.OpIpcCloseMemHandle, whole)
}

// TestExportsEndWithTheirMemory: the device process keeps the files of exports, so it is told when
// those end.
func TestExportsEndWithTheirMemory(t *testing.T) {
	r, conn := exporter(t, oneBase)
	m := r.want(t, 0, gpubackend.OpMemCreate, piece, 0, 0)
	n := r.want(t, 0, gpubackend.OpMemExportToShareableHandle, m)
	offerOf(t, conn)
	r.want(t, 0, gpubackend.OpMemRelease, m)
	pool := r.want(t, 0, gpubackend.OpMemPoolCreate, 0, 0, pools.HandlePosixFile)
	p := r.want(t, 0, gpubackend.OpMemPoolExportToShareableHandle, pool)
	r.want(t, 0, gpubackend.OpMemPoolDestroy, pool)
	for _, want := range []struct {
		kind   handover.Kind
		number uint64
	}{{handover.KindWithdraw, n}, {handover.KindOffer, p}, {handover.KindWithdraw, p}} {
		got, fds, err := conn.Receive()
		if err != nil || len(fds) > 0 || got.Kind != want.kind || got.Object == nil ||
			uint64(got.Object.Number) != want.number {
			t.Errorf("%+v, %v, want %s of %d", got, err, want.kind, want.number)
		}
	}
}
