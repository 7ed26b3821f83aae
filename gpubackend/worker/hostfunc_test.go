// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/hostfuncs"
	"github.com/paracuda/paracuda/gpubackend/worker/precopied"
)

// streamDriver has one stream of host functions, each due when the one before was released, and a
// call that waits for them all, as a call of the real driver may. So may those that say why it
// can't be saved, and that compute sums: these wait for one.
type streamDriver struct {
	*fakeDriver
	waits    chan struct{} // closed when such a call waits; nil: none does
	calls    chan func()
	released chan struct{}
	stop     chan struct{}
	want     int
	fail     gpubackend.Result
}

func newStreamDriver(t *testing.T, f *fakeDriver) *streamDriver {
	d := &streamDriver{fakeDriver: f, calls: make(chan func(), 100),
		released: make(chan struct{}, 100), stop: make(chan struct{})}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for call := range d.calls {
			call()
		}
	}()
	t.Cleanup(func() { close(d.stop); close(d.calls); <-gone })
	return d
}

func (d *streamDriver) HostFunc(
	_ gpubackend.Stream, token uint64, f func(uint64),
) (func(), gpubackend.Result) {
	done := make(chan struct{})
	d.calls <- func() {
		f(token)
		select {
		case <-done:
		case <-d.stop:
		}
	}
	return func() { close(done); d.released <- struct{}{} }, gpubackend.Success
}

func (d *streamDriver) EventCreate(uint64) (gpubackend.Event, gpubackend.Result) {
	for range d.want {
		<-d.released
	}
	return 1, d.fail
}

// await waits until a host function was released.
func (d *streamDriver) await() {
	if d.waits != nil {
		close(d.waits)
		<-d.released
	}
}

// SumPieces loads a kernel first, as the real driver does.
func (d *streamDriver) SumPieces(
	key uint64, list []gpubackend.Piece, sums []uint64,
) gpubackend.Result {
	d.await()
	return d.fakeDriver.SumPieces(key, list, sums)
}

func (d *streamDriver) Saves() bool { return d.waits != nil }

func (d *streamDriver) Unsavable() string {
	d.await()
	return "a reason"
}

// guestThread is the library's thread of host functions: it runs until there was an error, or n
// functions.
func (r *rig) guestThread(
	n int, run func(token uint64),
) (tokens []uint64, result gpubackend.Result) {
	slot := r.mem[wire.Slots+wire.HostSlot*wire.SlotBytes:]
	for seq := uint32(1); seq <= uint32(n); seq++ {
		for atomic.LoadUint32(word(slot)) != seq {
			time.Sleep(10 * time.Microsecond)
		}
		var s wire.Slot
		s.Decode(slot)
		if s.Result != 0 {
			return tokens, gpubackend.Result(s.Result)
		}
		run(s.Word[0])
		tokens = append(tokens, s.Word[0])
		atomic.StoreUint32(word(r.mem[wire.ArenaHeaderHostDoneOffset:]), seq)
	}
	return tokens, 0
}

// TestCallThatWaitsForHostFunctions: the loop is inside a driver call that ends when the guest has
// run its functions.
func TestCallThatWaitsForHostFunctions(t *testing.T) {
	const n = 20
	r := newRig(t)
	d := newStreamDriver(t, r.driver)
	d.want = n
	r.use(d)
	defer r.hostFuncs.Close()
	for i := range uint64(n) {
		if got := r.call(t, gpubackend.OpHostFunc, 0, i+1); got != gpubackend.Success {
			t.Fatalf("function %d: %d", i, got)
		}
	}
	if got := r.call(t, gpubackend.OpHostFunc, 0, n); got != gpubackend.InvalidValue {
		t.Fatalf("a token that is in use: %d", got)
	}
	tokens := make(chan []uint64)
	go func() {
		got, _ := r.guestThread(n, func(uint64) {})
		tokens <- got
	}()
	if got := r.call(t, gpubackend.OpEventCreate, 0); got != gpubackend.Success {
		t.Fatalf("the call that waits: %d", got)
	}
	for i, token := range <-tokens {
		if token != uint64(i+1) {
			t.Fatalf("function %d was announced as number %d", token, i+1)
		}
	}
}

// TestMovableWaitsForHostFunctions: a program's worker says why it can't be saved while a host
// function runs, for which the device waits. While the VM stands still the device isn't asked.
func TestMovableWaitsForHostFunctions(t *testing.T) {
	r := newRig(t)
	d := newStreamDriver(t, r.driver)
	d.waits = make(chan struct{})
	r.use(d)
	defer r.hostFuncs.Close()
	device := r.connect(t)
	must := func(reason string) {
		t.Helper()
		r.say(handover.Message{Kind: handover.KindMovable, Turn: 7})
		if err := r.handle(<-r.messages); err != nil {
			t.Fatal(err)
		}
		want := handover.Message{Kind: handover.KindMoves, Turn: 7, Reason: reason}
		if m := answerOf(t, device); !reflect.DeepEqual(*m, want) {
			t.Errorf("%+v, want %+v", m, want)
		}
	}
	if got := r.call(t, gpubackend.OpHostFunc, 0, 7); got != gpubackend.Success {
		t.Fatalf("function: %d", got)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.guestThread(1, func(uint64) { <-d.waits })
	}()
	must("a reason")
	<-gone
	r.say(handover.Message{Kind: handover.KindDrain, Grace: time.Minute})
	r.say(handover.Message{Kind: handover.KindMovable, Turn: 7})
	r.say(handover.Message{Kind: handover.KindGoOn})
	if err := r.handle(<-r.messages); err != nil { // it would wait for ever if it asked
		t.Fatal(err)
	}
	for _, want := range []handover.Kind{handover.KindDrained, handover.KindMoves} {
		if m := answerOf(t, device); m.Kind != want || m.Reason != "" {
			t.Errorf("%+v, want %s", m, want)
		}
	}
}

// TestCopyAheadWaitsForHostFunctions: memory is copied ahead while a host function runs, for which
// the device waits.
func TestCopyAheadWaitsForHostFunctions(t *testing.T) {
	r := newRig(t)
	r.driver.memory = make([]byte, sectorsum.Bytes)
	d := newStreamDriver(t, r.driver)
	d.waits = make(chan struct{})
	r.use(d)
	defer r.hostFuncs.Close()
	device := r.connect(t)
	if got := r.call(t, gpubackend.OpHostFunc, 0, 7); got != gpubackend.Success {
		t.Fatalf("function: %d", got)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.guestThread(1, func(uint64) { <-d.waits })
	}()
	buffer, err := unix.MemfdCreate("buffer", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(buffer, precopied.BufferBytes); err != nil {
		t.Fatal(err)
	}
	r.say(handover.Message{Kind: handover.KindPrecopy, Files: handover.Files{Object: true}}, buffer)
	r.say(handover.Message{Kind: handover.KindPrecopy})
	r.say(handover.Message{Kind: handover.KindPrecopy}) // this one compares
	for _, want := range []int{0, 1, 0} {
		if err := r.handle(<-r.messages); err != nil {
			t.Fatal(err)
		}
		if m := answerOf(t, device); m.Error != "" || len(m.Sectors) != want {
			t.Errorf("%d sectors, want %d: %s", len(m.Sectors), want, m.Error)
		}
	}
	<-gone
	r.precopied.End()
}

// TestHostFunctionsHeld: while the device process changes memory or queue, nothing is written.
func TestHostFunctionsHeld(t *testing.T) {
	r := newRig(t)
	d := newStreamDriver(t, r.driver)
	r.use(d)
	defer r.hostFuncs.Close()
	r.hostFuncs.Hold()
	r.call(t, gpubackend.OpHostFunc, 0, 7)
	for !r.hostFuncs.Busy() {
		time.Sleep(time.Millisecond)
	}
	for range 1000 {
		r.hostFuncs.Advance()
	}
	if n := atomic.LoadUint32(word(r.mem[wire.Slots+wire.HostSlot*wire.SlotBytes:])); n != 0 {
		t.Fatalf("function announced as number %d", n)
	}
	r.hostFuncs.LetGo()
	if tokens, _ := r.guestThread(1, func(uint64) {}); tokens[0] != 7 {
		t.Fatalf("function %d", tokens[0])
	}
}

// TestHostFunctionsOfADeadContext: the guest is told once what killed the context, after what was
// due.
func TestHostFunctionsOfADeadContext(t *testing.T) {
	r := newRig(t)
	d := newStreamDriver(t, r.driver)
	d.fail = gpubackend.IllegalAddress
	r.use(d)
	defer r.hostFuncs.Close()
	r.call(t, gpubackend.OpHostFunc, 0, 7)
	for !r.hostFuncs.Busy() {
		time.Sleep(time.Millisecond)
	}
	for range 3 {
		if got := r.call(t, gpubackend.OpEventCreate, 0); got != gpubackend.IllegalAddress {
			t.Fatalf("the call that fails: %d", got)
		}
	}
	tokens, result := r.guestThread(2, func(uint64) {})
	if len(tokens) != 1 || tokens[0] != 7 || result != gpubackend.IllegalAddress {
		t.Fatalf("ran %v, then %d", tokens, result)
	}
	for r.hostFuncs.Busy() {
		time.Sleep(time.Millisecond)
	}
	if n := atomic.LoadUint32(word(r.mem[wire.Slots+wire.HostSlot*wire.SlotBytes:])); n != 2 {
		t.Fatalf("%d announcements", n)
	}
}

// TestHostFunctionsAreBounded: a guest can't queue them without end.
func TestHostFunctionsAreBounded(t *testing.T) {
	r := newRig(t)
	defer r.hostFuncs.Close()
	for i := range uint64(hostfuncs.MaxFuncs) {
		if got := r.call(t, gpubackend.OpHostFunc, 0, i+1); got != gpubackend.Success {
			t.Fatalf("function %d: %d", i, got)
		}
	}
	if got := r.call(t, gpubackend.OpHostFunc, 0,
		hostfuncs.MaxFuncs+1); got != gpubackend.InvalidValue {
		t.Fatalf("one more: %d", got)
	}
}
