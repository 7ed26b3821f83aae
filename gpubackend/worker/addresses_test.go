// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/soft"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/memory"
	"github.com/paracuda/paracuda/internal/fix"
)

func boundedRig(t *testing.T, most int) *pageableRig {
	t.Helper()
	options := soft.Options{Memory: 64 << 20, Base: 0x2c0000000000, Window: 1 << 30}
	r := newPageableRig(t, soft.New(options))
	if most > 0 {
		r.places = addresses.PlacesFor(most)
		r.use(r.Worker.driver)
	}
	return r
}

// reservation is the n-th of several with gaps between them.
func reservation(n int) uint64 { return memory.ReserveBase + uint64(2*n)*gpubackend.Granularity }

const oneUnit = gpubackend.Granularity

func TestReservationsAreBounded(t *testing.T) {
	const most = 8
	r := boundedRig(t, most)
	var said bytes.Buffer
	r.log.Logger.SetOutput(&said)
	r.places.WhenFull(r.sayFull)
	for i := range most {
		r.want(t, 0, gpubackend.OpMemAddressReserve, reservation(i), oneUnit)
	}
	r.want(t, gpubackend.OutOfMemory, gpubackend.OpMemAddressReserve, reservation(most), oneUnit)
	if !strings.Contains(said.String(), fix.Mappings) {
		t.Errorf("the log says %q, want what fixes it", said.String())
	}
	memory := r.want(t, 0, gpubackend.OpMemCreate, oneUnit, 0, 0)
	r.want(t, gpubackend.OutOfMemory, gpubackend.OpMemMap, reservation(0), oneUnit, memory)
	for i := range addresses.OfMapped {
		r.want(t, 0, gpubackend.OpMemAddressFree, reservation(1+i), oneUnit)
	}
	r.want(t, 0, gpubackend.OpMemMap, reservation(0), oneUnit, memory)
	r.want(t, gpubackend.OutOfMemory, gpubackend.OpMemAddressReserve, reservation(most), oneUnit)
	r.want(t, 0, gpubackend.OpMemUnmap, reservation(0), oneUnit)
	r.want(t, 0, gpubackend.OpMemAddressReserve, reservation(most), oneUnit)
	for _, i := range []int{0, 3, 4, 5, 6, 7, most} {
		r.want(t, 0, gpubackend.OpMemAddressFree, reservation(i), oneUnit)
	}
	if r.places.Used() != 0 {
		t.Errorf("%d mappings stay counted", r.places.Used())
	}
}

// TestReservationsWithoutEnd: a process that gets no more mappings from the kernel ends, so
// reservations must leave it some.
func TestReservationsWithoutEnd(t *testing.T) {
	const more = 1 << 17
	r := boundedRig(t, 0)
	if r.places.Most() > more {
		t.Skipf("a process may have %d mappings here", r.places.Most())
	}
	n := 0
	for r.call(t, gpubackend.OpMemAddressReserve, reservation(n), oneUnit) == gpubackend.Success {
		if n++; n > more {
			t.Fatalf("%d reservations", n)
		}
	}
	for i := range 1000 { // as Go's runtime does, which ends the process if it can't
		undo, err := arena.Reserve(uintptr(memory.ReserveEnd)+uintptr(2*i)*oneUnit, oneUnit)
		if err != nil {
			t.Fatalf("nothing is left to the rest of the process: %v", err)
		}
		defer undo()
	}
	for n > 0 {
		n--
		r.want(t, 0, gpubackend.OpMemAddressFree, reservation(n), oneUnit)
	}
}

// TestScatteredPagesAreBounded: each run of pinned memory is a mapping.
func TestScatteredPagesAreBounded(t *testing.T) {
	t.Run("pinned", func(t *testing.T) {
		r, address := scattered(t, gpubackend.OpHostRegister, 0)
		r.want(t, 0, gpubackend.OpHostUnregister, 1)
		r.want(t, 0, gpubackend.OpHostRegister, 2, address, scatteredPages*4096, 0)
		r.want(t, 0, gpubackend.OpHostUnregister, 2)
		if r.places.Used() != 0 {
			t.Errorf("%d mappings stay counted", r.places.Used())
		}
	})
	t.Run("pageable", func(t *testing.T) { scattered(t, gpubackend.OpHostPageable) })
}

const scatteredPages = 12

// scattered maps scattered pages, so that there is no room for as many more. Those are at the
// address that it returns.
func scattered(t *testing.T, op gpubackend.Op, more ...uint64) (r *pageableRig, address uint64) {
	t.Helper()
	freeAddress += freeStep
	r, address = boundedRig(t, 16), freeAddress
	var pages [scatteredPages]uint64
	for i := range pages {
		pages[len(pages)-1-i] = r.guest.Alloc(4096, 4096)
	}
	for id, want := range []gpubackend.Result{0, gpubackend.OutOfMemory} {
		address += 1 << 16
		r.offer(uint32(1+id), address, pages[:]...)
		words := []uint64{uint64(1 + id), address, scatteredPages * 4096}
		r.want(t, want, op, append(words, more...)...)
	}
	return r, address
}

// TestPagesInPlaceOfOthersAreCounted: what goes back to the guest counts no longer.
func TestPagesInPlaceOfOthersAreCounted(t *testing.T) {
	freeAddress += freeStep
	r, address := boundedRig(t, 0), freeAddress
	a, b := r.guest.Alloc(4096, 4096), r.guest.Alloc(4096, 4096)
	for i := range uint32(10) {
		r.show(1+i, address, b, a)
	}
	if want := addresses.OfReserved + addresses.OfShown(2); r.places.Used() != want {
		t.Errorf("%d mappings are counted, want %d", r.places.Used(), want)
	}
}
