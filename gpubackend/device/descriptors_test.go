// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/memfd"
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

// TestDescriptorsOfAVMThatIsBack: they have the numbers that they had, and stand for what they
// stood for when its program goes on. Those of a program that isn't there any more stand for
// nothing, and nothing else gets their numbers.
func TestDescriptorsOfAVMThatIsBack(t *testing.T) {
	for _, there := range []bool{true, false} {
		from, maker := exports.New(1<<10), &exports.Worker{}
		pool := &handover.Object{Kind: handover.ObjectPool, Number: 3, Token: 5}
		memory := &handover.Object{Kind: handover.ObjectMemory, Number: 4, Bytes: 8}
		file, err := memfd.New("memory", 8)
		if err != nil {
			t.Fatal(err)
		}
		from.Serves(maker, 2)
		from.Receive(maker, &handover.Message{Object: pool}, nil)
		from.Receive(maker, &handover.Message{Object: memory,
			Files: handover.Files{Object: true}}, []int{file})
		a, _ := from.Claim(maker, 3, 0)
		b, _ := from.Claim(maker, 4, 0)
		state := from.State()
		from.Clear()
		from.Ended(maker)

		d := newVMOf(t, Config{Spawn: &processes{}, Timeouts: patient}).dev
		if there {
			d.saving.TakeUp(&saving.InFile{Sum: 7,
				Programs: []saving.Filed{{Channel: 2, Anew: true}}})
		}
		if err := d.describe(state); err != nil {
			t.Fatal(err)
		}
		if _, _, status := d.exports.Take(a, &exports.Worker{}); status != wire.StatusOk {
			t.Errorf("there %t: the pool: status %d", there, status)
		}
		d.exports.Hold()
		want := map[bool]uint32{true: wire.StatusOk, false: wire.StatusNoObject}[there]
		if _, status, _ := d.exports.Owe(b, 3, &exports.Worker{}); status != want {
			t.Errorf("there %t: the memory: status %d, want %d", there, status, want)
		}
		d.exports.LetGo()
		other := &exports.Worker{}
		d.exports.Serves(other, 1)
		d.exports.Receive(other, &handover.Message{Object: pool}, nil)
		if n, _ := d.exports.Claim(other, 3, 0); n == a || n == b {
			t.Errorf("there %t: another program's pool has the number %d, too", there, n)
		}
		d.exports.Clear()
		d.exports.Ended(other)
	}
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
