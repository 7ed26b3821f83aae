// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// word is a word of the last answer.
func (v *vm) word(i int) uint64 {
	var s wire.Slot
	s.Decode(v.guest.Read(v.arena+wire.Slots, wire.SlotBytes))
	return s.Word[i]
}

func (v *vm) mustCall(channel int, op gpubackend.Op, seq uint32, words ...uint64) uint64 {
	v.t.Helper()
	if r, err := v.call(channel, op, seq, words...); err != nil || r != gpubackend.Success {
		v.t.Fatalf("%s: %d, %v", op.Name(), r, err)
	}
	return v.word(0)
}

func (v *vm) status(want uint32, r wire.ControlRequest) uint32 {
	v.t.Helper()
	a := v.ask(r)
	if a.Status != want {
		v.t.Fatalf("%+v: status %d, want %d", r, a.Status, want)
	}
	return a.Number
}

// TestMemoryOutlivesItsProcess exports memory of one process and imports it in the next, with real
// workers.
func TestMemoryOutlivesItsProcess(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.status(wire.StatusBadRequest,
		wire.ControlRequest{Type: wire.ControlExport, Channel: 0, Number: 1})
	v.status(wire.StatusBadRequest,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 0, Number: 1})
	v.status(wire.StatusBadRequest,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 77, Number: 1})
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlRelease, Channel: 77, Number: 1})
	v.program(0)
	m := v.mustCall(0, gpubackend.OpMemCreate, 2, 4<<20, 0, 0)
	n := uint32(v.mustCall(0, gpubackend.OpMemExportToShareableHandle, 3, m))
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlExport, Channel: 0, Number: n + 1})
	handle := v.status(wire.StatusOk,
		wire.ControlRequest{Type: wire.ControlExport, Channel: 0, Number: n})
	v.closeChannel(0)

	v.program(1)
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlExport, Channel: 1, Number: n})
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 1, Number: handle + 1})
	number := v.status(wire.StatusOk,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 1, Number: handle})
	if r, err := v.call(1, gpubackend.OpMemImportFromShareableHandle, 2,
		uint64(number)+1); err != nil || r != gpubackend.InvalidValue {
		t.Errorf("import of nothing: %d, %v", r, err)
	}
	same := v.mustCall(1, gpubackend.OpMemImportFromShareableHandle, 3, uint64(number))
	if v.word(1) != 4<<20 || v.word(2) != 0 {
		t.Errorf("memory of %d bytes on device %d", v.word(1), v.word(2))
	}
	if r, err := v.call(1, gpubackend.OpMemImportFromShareableHandle, 4,
		uint64(number)); err != nil || r != gpubackend.InvalidValue {
		t.Errorf("import twice: %d, %v", r, err)
	}
	v.mustCall(1, gpubackend.OpMemRelease, 5, same)
	v.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlRelease, Number: handle})
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 1, Number: handle})
}

// TestImportsThatNobodyTakes: the number of imports that are handed over to a process, and that it
// doesn't ask for, is bounded.
func TestImportsThatNobodyTakes(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.program(0)
	m := v.mustCall(0, gpubackend.OpMemCreate, 2, 2<<20, 0, 0)
	n := uint32(v.mustCall(0, gpubackend.OpMemExportToShareableHandle, 3, m))
	handle := v.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlExport, Number: n})
	ok := 0
	for range 1000 {
		a := v.ask(wire.ControlRequest{Type: wire.ControlImport, Number: handle})
		if a.Status == wire.StatusLimit {
			break
		}
		if a.Status != wire.StatusOk {
			t.Fatalf("status %d", a.Status)
		}
		ok++
	}
	if ok == 0 || ok == 1000 {
		t.Errorf("%d imports were handed over", ok)
	}
	v.mustCall(0, gpubackend.OpMemRelease, 4, m) // the worker lives
}

// TestWorkerDoesNotImport has workers that break off, or say nothing, when they are to import.
func TestWorkerDoesNotImport(t *testing.T) {
	give := func(s *stub) {
		fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
		if err != nil {
			return
		}
		defer unix.Close(fd)
		o := handover.Object{Kind: handover.ObjectMemory, Number: 5, Bytes: 2 << 20}
		_ = s.Conn.Send(&handover.Message{Kind: handover.KindOffer, Object: &o,
			Files: handover.Files{Object: true}}, []int{fd})
	}
	for name, rest := range map[string]func(*stub){
		"gone":   func(s *stub) { _, _ = s.Receive() },
		"silent": func(s *stub) { <-s.Killed },
	} {
		t.Run(name, func(t *testing.T) {
			script := func(s *stub) {
				if _, err := s.Receive(); err == nil {
					give(s)
					_ = s.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
					rest(s)
				}
			}
			v := greetedVM(t, &stubs{script: script}, Timeouts{Start: time.Second})
			v.open(0)
			handle := v.status(wire.StatusOk,
				wire.ControlRequest{Type: wire.ControlExport, Number: 5})
			v.status(wire.StatusNoWorker,
				wire.ControlRequest{Type: wire.ControlImport, Number: handle})
			v.closeChannel(0)
			v.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlRelease, Number: handle})
		})
	}
}

// TestHandlesOfAnEarlierDriver: a pause keeps handles; a driver that begins anew gets nothing of
// what the one before had.
func TestHandlesOfAnEarlierDriver(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.program(0)
	m := v.mustCall(0, gpubackend.OpMemCreate, 2, 2<<20, 0, 0)
	n := uint32(v.mustCall(0, gpubackend.OpMemExportToShareableHandle, 3, m))
	handle := v.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlExport, Number: n})
	v.front.Stop(v.queues...)
	v.front.Start(v.queues...)
	v.hello() // the same driver's, once more
	v.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlImport, Number: handle})
	v.front.Stop(v.queues...)
	for i := range v.queues {
		v.queues[i] = vhostusertest.NewQueue(t, v.guest, i, queueSize)
	}
	v.front.Start(v.queues...)
	v.hello()
	v.program(1)
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 1, Number: handle})
	v.status(wire.StatusNoObject, wire.ControlRequest{Type: wire.ControlRelease, Number: handle})
	if handles, bytes := v.dev.exports.Held(); handles != 0 || bytes != 0 {
		t.Errorf("%d handles are left, %d bytes", handles, bytes)
	}
}
