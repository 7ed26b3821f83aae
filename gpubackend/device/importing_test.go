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
	*suspended
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
	i := &importing{handles: []uint32{
		v.exported(1, v.mustCall(1, gpubackend.OpMemExportToShareableHandle, 4, memory)),
		v.exported(1, v.mustCall(1, gpubackend.OpMemPoolExportToShareableHandle, 5, pool)),
	}}
	// not those of the other program
	v.arena, v.events = v.guest.Alloc(arenaBytes, 4096), v.guest.Alloc(1<<16, 4096)
	i.suspended = suspendedVM(v, page)
	own := i.do(gpubackend.OpMemCreate, importedBytes, 0, 0)
	i.handles = append(i.handles,
		v.exported(0, i.do(gpubackend.OpMemExportToShareableHandle, own)))
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
	i.t.Helper()
	for _, handle := range i.handles {
		n := i.status(wire.StatusOk,
			wire.ControlRequest{Type: wire.ControlImport, Number: handle})
		numbers = append(numbers, uint64(n))
	}
	return numbers
}

// name names what begin has imported.
func (i *importing) name(numbers []uint64) {
	i.t.Helper()
	for n, number := range numbers {
		if n == 1 {
			pool := i.do(gpubackend.OpMemPoolImportFromShareableHandle, number)
			i.do(gpubackend.OpMemPoolDestroy, pool)
			continue
		}
		m := i.do(gpubackend.OpMemImportFromShareableHandle, number)
		if got := i.word(1); got != importedBytes {
			i.t.Errorf("import %d is memory of %d bytes", number, got)
		}
		i.do(gpubackend.OpMemRelease, m)
	}
}

// move moves the VM to another device, through one between them, in which it doesn't run.
func (i *importing) move() {
	i.t.Helper()
	i.front.Stop(i.queues...)
	state := i.saveState()
	i.close()
	between := New(Config{GPU: "soft", Settings: settingsOf(i.t), Log: quiet(),
		Spawn: &processes{}, Timeouts: patient})
	if err := between.LoadState(bytes.NewReader(state)); err != nil {
		i.t.Fatal(err)
	}
	var second bytes.Buffer
	if err := between.SaveState(&second); err != nil {
		i.t.Fatal(err)
	}
	between.Abandon()
	between.Reset()
	i.moveTo(Config{}, second.Bytes())
}

// TestImportsGoAlong: what a program has imported, and not named yet, or never names, is there
// wherever the VM goes on, however it got there.
func TestImportsGoAlong(t *testing.T) {
	for name, stop := range map[string]func(*importing){
		"suspended": func(i *importing) {
			i.mustSuspend()
			i.mustResume()
		},
		"in a file": func(i *importing) { i.resumeFrom(i.saveTo()) },
		"kept here": func(i *importing) {
			i.front.Stop(i.queues...)
			i.saveState()
			i.front.Start(i.queues...)
		},
		"migrated": func(i *importing) {
			i.front.Stop(i.queues...)
			i.moveTo(Config{}, i.saveState())
		},
		"migrated twice": func(i *importing) { i.move() },
		"migrated in a file": func(i *importing) {
			f := i.saveTo()
			i.move()
			i.resumeFrom(f)
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
		"here": func(i *importing, f io.ReaderAt) { i.resumeFrom(f) },
		"there": func(i *importing, f io.ReaderAt) {
			i.move()
			i.resumeFrom(f)
		},
		"and migrated": func(i *importing, f io.ReaderAt) {
			i.move()
			i.resumeFrom(f)
			i.move()
		},
		"again": func(i *importing, f io.ReaderAt) {
			i.resumeFrom(f)
			i.resumeFrom(i.saveTo())
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImporting(t)
			before := i.begin()
			f := i.saveTo()
			meanwhile := i.begin()
			resume(i, f)
			i.name(meanwhile)
			i.name(before)
			if s := i.dev.suspension.State(); s != suspend.Running {
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
		f := i.file()
		_, err := i.dev.saving.Save(f, false, nil, func() error {
			numbers = i.begin()
			return keeps
		}, noProgress)
		if !errors.Is(err, keeps) {
			t.Fatal(err)
		}
		if keeps == nil {
			i.resumeFrom(f)
		}
		i.name(numbers)
	}
}

// TestImportsOfProgramsThatEnd: a program that ends while the VM is in a file takes its memory with
// it. Who was in the middle of importing that is told so, and goes on.
func TestImportsOfProgramsThatEnd(t *testing.T) {
	i := newImporting(t)
	before := i.begin()
	f := i.saveTo()
	meanwhile := i.begin()
	i.closeChannel(1)
	i.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlImport, Number: i.handles[0]})
	i.resumeFrom(f)
	for _, number := range []uint64{before[0], meanwhile[0]} {
		i.seq++
		r, err := i.call(0, gpubackend.OpMemImportFromShareableHandle, i.seq, number)
		if err != nil || r != gpubackend.InvalidValue {
			t.Fatalf("import %d of memory that is gone: %d, %v", number, r, err)
		}
	}
	i.move() // the descriptor of it is open, and keeps nothing
	i.mustImport(i.handles[2])
	i.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlRelease, Number: i.handles[0]})
}

// TestDescriptorsOfAVMThatDoesNotCome: nothing is left of them where its programs can't be made.
func TestDescriptorsOfAVMThatDoesNotCome(t *testing.T) {
	i := newImporting(t)
	i.front.Stop(i.queues...)
	state := i.saveState()
	state[len(state)-1] ^= 4
	there := New(Config{GPU: "soft", Settings: settingsOf(t), Log: quiet(), Spawn: &processes{},
		Timeouts: patient})
	err := there.LoadState(bytes.NewReader(state))
	if n, _ := there.exports.Held(); err == nil || n != 0 || there.exports.State() != nil {
		t.Errorf("%v; %d handles are left", err, n)
	}
	i.front.Start(i.queues...)
	i.name(i.begin())
}

// TestImportsAtAnEarlierTime: QEMU's loadvm takes descriptors and imports back to what they were.
func TestImportsAtAnEarlierTime(t *testing.T) {
	i := newImporting(t)
	numbers := i.begin()
	i.front.Stop(i.queues...)
	restore := i.snapshot()
	for range 3 {
		i.front.Start(i.queues...)
		i.name(numbers)
		i.status(wire.StatusOk,
			wire.ControlRequest{Type: wire.ControlRelease, Number: i.handles[0]})
		later := i.exported(0, i.do(gpubackend.OpMemExportToShareableHandle,
			i.do(gpubackend.OpMemCreate, importedBytes, 0, 0)))
		i.front.Stop(i.queues...)
		restore()
		i.front.Start(i.queues...)
		i.status(wire.StatusNoObject,
			wire.ControlRequest{Type: wire.ControlImport, Number: later})
		i.mustImport(i.handles[0])
		i.front.Stop(i.queues...)
		restore()
	}
}
