// SPDX-License-Identifier: Apache-2.0

// Package failure knows the error by which a program's context has failed. CUDA answers nearly
// every later call with it, and so does the guest's library: whatever the program had can't be used
// any more.
//
// So a program that has failed is saved as that error alone. The worker that is made from its
// record has none of the program's objects, and answers each command with the error, but for those
// that the guest's library sends even then: pinned pages come back, threads end.
//
// # Who owns what
//
// The worker's loop owns a Failure, and with Restore lends it the table of its handlers.
//
// # Who may lie
//
// Who wrote the record: saving takes only an error that contexts can fail with. The guest knows the
// error from its own memory; if it forgets it there, it is told again.
package failure

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// Failure is that of one program, which hasn't failed at first.
type Failure struct{ told gpubackend.Result }

// Tell notes that the program is told of an error. The first one that kills a context stays.
func (f *Failure) Tell(r gpubackend.Result) {
	if f.told == gpubackend.Success && r.Sticky() {
		f.told = r
	}
}

// Told is what the program was told that its context has failed with, or Success.
func (f *Failure) Told() gpubackend.Result { return f.told }

// kept are the commands that are executed as ever. They need no context.
var kept = [...]gpubackend.Op{
	gpubackend.Op(wire.OpHello), gpubackend.Op(wire.OpUnmap), gpubackend.Op(wire.OpThreadExit),
	gpubackend.Op(wire.OpReport), gpubackend.Op(wire.OpJoin), gpubackend.Op(wire.OpUsage),
	gpubackend.OpHostUnregister,
}

// Restore makes a worker that has done nothing that of a program which was told of an error: all
// handlers but few answer with it.
func (f *Failure) Restore(r gpubackend.Result, table *call.Table) {
	f.Tell(r)
	before := *table
	for op := range table {
		if table[op].Run != nil {
			table[op].Bare = true
			table[op].Run = func(*call.Call) gpubackend.Result { return r }
		}
	}
	for _, op := range kept {
		table[op].Run = before[op].Run
	}
}
