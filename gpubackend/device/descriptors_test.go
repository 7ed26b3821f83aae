// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestImportsWaitForAFileOfAnother: where a VM has come to suspended to a file, a program that
// begins there is owed what it imports of one that is in the file.
func TestImportsWaitForAFileOfAnother(t *testing.T) {
	const channel = 2
	from, here := exports.New(1<<10), exports.New(1<<10)
	var maker, begins exports.Worker
	from.Receive(&maker, &handover.Message{
		Object: &handover.Object{Kind: handover.ObjectPool, Number: 3, Token: 5},
	}, nil)
	handle, _ := from.Claim(&maker, 3, 0)
	f := filed{suspend.New(suspend.Config{}), here}
	if err := f.TakeFile(); err != nil {
		t.Fatal(err)
	}
	if err := here.Load(from.State(), func(of int) bool { return of == 0 }); err != nil {
		t.Fatal(err)
	}
	here.Serves(&begins, channel)
	if _, status, owes := here.Owe(handle, channel, &begins); !owes || status != wire.StatusOk {
		t.Errorf("status %d, owes %t", status, owes)
	}
	here.Clear()
}

// TestExportedAgain: a program has imported memory, and exported it again, and has ended. The
// program that has made the memory takes what the descriptor stands for along, though it has closed
// all of its own.
func TestExportedAgain(t *testing.T) {
	page := newLedger(t)
	v := newVMOf(t, Config{Spawn: &processes{}, Ledger: page, Timeouts: patient})
	v.hello()
	v.program(1)
	made := v.mustCall(1, gpubackend.OpMemCreate, 2, importedBytes, 0, 0)
	first := v.exported(1, v.mustCall(1, gpubackend.OpMemExportToShareableHandle, 3, made))
	// not those of the other program
	v.arena, v.events = v.guest.Alloc(arenaBytes, 4096), v.guest.Alloc(1<<16, 4096)
	s := suspendedVM(v, page)
	number := s.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlImport, Number: first})
	imported := s.do(gpubackend.OpMemImportFromShareableHandle, uint64(number))
	again := v.exported(0, s.do(gpubackend.OpMemExportToShareableHandle, imported))
	s.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlRelease, Number: first})
	w := s.worker(0)
	s.closeChannel(0)
	<-w.Gone()
	if err := s.dev.saving.Movable(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.front.Stop(s.queues...)
		s.moveTo(Config{}, s.saveState())
	}
	s.program(0)
	s.seq = 10
	s.mustImport(again)
	s.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlRelease, Number: again})
	if handles, bytes := s.dev.exports.Held(); handles != 0 || bytes != 0 {
		t.Errorf("%d handles hold %d bytes", handles, bytes)
	}
}
