// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
)

// importing is a VM whose program on channel 0 imports: memory of its own, and memory and a pool of
// the program on channel 1.
type importing struct {
	vm      *vm
	program *suspended // on channel 0
	handles []uint32
}

// importedBytes is what each memory has.
const importedBytes = 4 << 20

func newImporting(t *testing.T) *importing {
	t.Helper()
	page := newLedger(t)
	v := newVMOf(t, Config{Spawn: &processes{}, Ledger: page, Timeouts: patient})
	v.hello()
	v.program(1)
	memory := v.mustCall(1, gpubackend.OpMemCreate, 2, importedBytes, 0, 0)
	pool := v.mustCall(1, gpubackend.OpMemPoolCreate, 3, 0, 0, pools.HandlePosixFile)
	i := &importing{vm: v, handles: []uint32{
		v.exported(1, v.mustCall(1, gpubackend.OpMemExportToShareableHandle, 4, memory)),
		v.exported(1, v.mustCall(1, gpubackend.OpMemPoolExportToShareableHandle, 5, pool)),
	}}
	// not those of the other program
	v.arena, v.events = v.guest.Alloc(arenaBytes, 4096), v.guest.Alloc(1<<16, 4096)
	i.program = suspendedVM(v, page)
	own := i.program.do(gpubackend.OpMemCreate, importedBytes, 0, 0)
	i.handles = append(i.handles,
		v.exported(0, i.program.do(gpubackend.OpMemExportToShareableHandle, own)))
	return i
}

// exported is the handle of what a program exports under a number.
func (v *vm) exported(channel uint32, number uint64) uint32 {
	v.t.Helper()
	return v.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlExport, Channel: channel,
		Number: uint32(number)})
}

// begin imports everything, and names none of it.
func (i *importing) begin() (numbers []uint64) {
	i.vm.t.Helper()
	for _, handle := range i.handles {
		n := i.vm.status(wire.StatusOk,
			wire.ControlRequest{Type: wire.ControlImport, Number: handle})
		numbers = append(numbers, uint64(n))
	}
	return numbers
}

// name names what begin has imported.
func (i *importing) name(numbers []uint64) {
	i.vm.t.Helper()
	for n, number := range numbers {
		if n == 1 {
			pool := i.program.do(gpubackend.OpMemPoolImportFromShareableHandle, number)
			i.program.do(gpubackend.OpMemPoolDestroy, pool)
			continue
		}
		m := i.program.do(gpubackend.OpMemImportFromShareableHandle, number)
		if got := i.vm.word(1); got != importedBytes {
			i.vm.t.Errorf("import %d is memory of %d bytes", number, got)
		}
		i.program.do(gpubackend.OpMemRelease, m)
	}
}

// move moves the VM to another device, through one between them, in which it doesn't run.
func (i *importing) move() {
	i.vm.t.Helper()
	i.vm.front.Stop(i.vm.queues...)
	state := i.vm.saveState()
	i.vm.close()
	between := New(Config{GPU: "soft", Settings: settingsOf(i.vm.t), Log: quiet(),
		Spawn: &processes{}, Timeouts: patient})
	if err := between.LoadState(bytes.NewReader(state)); err != nil {
		i.vm.t.Fatal(err)
	}
	var second bytes.Buffer
	if err := between.SaveState(&second); err != nil {
		i.vm.t.Fatal(err)
	}
	between.Abandon()
	between.Reset()
	i.program.moveTo(Config{}, second.Bytes())
}

// TestImportsGoAlong: what a program has imported, and not named yet, or never names, is there
// wherever the VM goes on, however it got there.
func TestImportsGoAlong(t *testing.T) {
	for name, stop := range map[string]func(*importing){
		"suspended": func(i *importing) {
			i.vm.mustSuspend()
			i.vm.mustResume()
		},
		"in a file": func(i *importing) { i.program.resumeFrom(i.program.saveTo()) },
		"kept here": func(i *importing) {
			i.vm.front.Stop(i.vm.queues...)
			i.vm.saveState()
			i.vm.front.Start(i.vm.queues...)
		},
		"migrated": func(i *importing) {
			i.vm.front.Stop(i.vm.queues...)
			i.program.moveTo(Config{}, i.vm.saveState())
		},
		"migrated twice": func(i *importing) { i.move() },
		"migrated in a file": func(i *importing) {
			f := i.program.saveTo()
			i.move()
			i.program.resumeFrom(f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImporting(t)
			i.begin() // and nothing more
			for range 2 {
				numbers := i.begin()
				stop(i)
				i.name(numbers)
			}
		})
	}
}

// TestImportsInAFile: what a program imports while it is in a file is handed to the worker that
// goes on, wherever that is, and may not be named before the VM stops again.
func TestImportsInAFile(t *testing.T) {
	for name, resume := range map[string]func(*importing, io.ReaderAt){
		"here": func(i *importing, f io.ReaderAt) { i.program.resumeFrom(f) },
		"there": func(i *importing, f io.ReaderAt) {
			i.move()
			i.program.resumeFrom(f)
		},
		"and migrated": func(i *importing, f io.ReaderAt) {
			i.move()
			i.program.resumeFrom(f)
			i.move()
		},
		"again": func(i *importing, f io.ReaderAt) {
			i.program.resumeFrom(f)
			i.program.resumeFrom(i.program.saveTo())
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImporting(t)
			before := i.begin()
			f := i.program.saveTo()
			meanwhile := i.begin()
			resume(i, f)
			i.name(meanwhile)
			i.name(before)
			if s := i.vm.dev.suspension.State(); s != suspend.Running {
				t.Errorf("the VM is %s", s)
			}
		})
	}
}

// TestImportsWhileItIsWritten: what a program imports while the file is written is handed to its
// worker, also if that goes on as nothing comes of the file.
func TestImportsWhileItIsWritten(t *testing.T) {
	i := newImporting(t)
	for _, keeps := range []error{errors.New("the disk is full"), nil} {
		var numbers []uint64
		f := i.program.file()
		_, err := i.vm.dev.saving.Save(f, false, nil, func() error {
			numbers = i.begin()
			return keeps
		}, noProgress)
		if !errors.Is(err, keeps) {
			t.Fatal(err)
		}
		if keeps == nil {
			i.program.resumeFrom(f)
		}
		i.name(numbers)
	}
}

// TestImportsOfProgramsThatEnd: a program that ends while the VM is in a file takes its memory with
// it. Who was in the middle of importing that is told so, and goes on.
func TestImportsOfProgramsThatEnd(t *testing.T) {
	i := newImporting(t)
	before := i.begin()
	f := i.program.saveTo()
	meanwhile := i.begin()
	i.vm.closeChannel(1)
	i.vm.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlImport, Number: i.handles[0]})
	i.program.resumeFrom(f)
	for _, number := range []uint64{before[0], meanwhile[0]} {
		i.program.seq++
		r, err := i.vm.call(0, gpubackend.OpMemImportFromShareableHandle, i.program.seq, number)
		if err != nil || r != gpubackend.InvalidValue {
			t.Fatalf("import %d of memory that is gone: %d, %v", number, r, err)
		}
	}
	i.move() // the descriptor of it is open, and keeps nothing
	i.program.mustImport(i.handles[2])
	i.vm.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlRelease, Number: i.handles[0]})
}

// TestDescriptorsOfAVMThatDoesNotCome: nothing is left of them where its programs can't be made.
func TestDescriptorsOfAVMThatDoesNotCome(t *testing.T) {
	i := newImporting(t)
	i.vm.front.Stop(i.vm.queues...)
	state := i.vm.saveState()
	state[len(state)-1] ^= 4
	there := New(Config{GPU: "soft", Settings: settingsOf(t), Log: quiet(), Spawn: &processes{},
		Timeouts: patient})
	err := there.LoadState(bytes.NewReader(state))
	if n, _ := there.exports.Held(); err == nil || n != 0 || there.exports.State() != nil {
		t.Errorf("%v; %d handles are left", err, n)
	}
	i.vm.front.Start(i.vm.queues...)
	i.name(i.begin())
}

// TestImportsAtAnEarlierTime: QEMU's loadvm takes descriptors and imports back to what they were.
func TestImportsAtAnEarlierTime(t *testing.T) {
	i := newImporting(t)
	numbers := i.begin()
	i.vm.front.Stop(i.vm.queues...)
	restore := i.program.snapshot()
	for range 3 {
		i.vm.front.Start(i.vm.queues...)
		i.name(numbers)
		i.vm.status(wire.StatusOk,
			wire.ControlRequest{Type: wire.ControlRelease, Number: i.handles[0]})
		later := i.vm.exported(0, i.program.do(gpubackend.OpMemExportToShareableHandle,
			i.program.do(gpubackend.OpMemCreate, importedBytes, 0, 0)))
		i.vm.front.Stop(i.vm.queues...)
		restore()
		i.vm.front.Start(i.vm.queues...)
		i.vm.status(wire.StatusNoObject,
			wire.ControlRequest{Type: wire.ControlImport, Number: later})
		i.program.mustImport(i.handles[0])
		i.vm.front.Stop(i.vm.queues...)
		restore()
	}
}
