// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/admission"
	"github.com/paracuda/paracuda/gpubackend/worker/batches"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/code"
	"github.com/paracuda/paracuda/gpubackend/worker/contexts"
	"github.com/paracuda/paracuda/gpubackend/worker/copies"
	"github.com/paracuda/paracuda/gpubackend/worker/endings"
	"github.com/paracuda/paracuda/gpubackend/worker/exports"
	"github.com/paracuda/paracuda/gpubackend/worker/faults"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
	"github.com/paracuda/paracuda/gpubackend/worker/filed"
	"github.com/paracuda/paracuda/gpubackend/worker/functions"
	"github.com/paracuda/paracuda/gpubackend/worker/graphs"
	"github.com/paracuda/paracuda/gpubackend/worker/green"
	"github.com/paracuda/paracuda/gpubackend/worker/hello"
	"github.com/paracuda/paracuda/gpubackend/worker/history"
	"github.com/paracuda/paracuda/gpubackend/worker/hostfuncs"
	"github.com/paracuda/paracuda/gpubackend/worker/hostmemory"
	"github.com/paracuda/paracuda/gpubackend/worker/launches"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/memory"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
	"github.com/paracuda/paracuda/gpubackend/worker/precopied"
	"github.com/paracuda/paracuda/gpubackend/worker/protocol"
	"github.com/paracuda/paracuda/gpubackend/worker/reach"
	"github.com/paracuda/paracuda/gpubackend/worker/saving"
	"github.com/paracuda/paracuda/gpubackend/worker/sharing"
	"github.com/paracuda/paracuda/gpubackend/worker/shortage"
	"github.com/paracuda/paracuda/gpubackend/worker/sleeping"
	"github.com/paracuda/paracuda/gpubackend/worker/standstill"
	"github.com/paracuda/paracuda/gpubackend/worker/streams"
	"github.com/paracuda/paracuda/gpubackend/worker/suspension"
	"github.com/paracuda/paracuda/gpubackend/worker/textures"
	"github.com/paracuda/paracuda/gpubackend/worker/waiting"
)

// rooms are the rooms of a worker, and what they have in common. No room has the worker: each gets
// the few things that it uses, some of them as functions.
type rooms struct {
	// What others use.
	contexts *contexts.Contexts
	fences   *fences.Fences
	streams  *streams.Streams
	kernels  *code.Kernels
	maps     *maps.Maps
	places   *addresses.Quota
	exports  *exports.Exports

	// Those with commands of the guest's.
	protocol   *protocol.Protocol
	hello      *hello.Hello
	functions  *functions.Functions
	launcher   *launches.Launcher
	copies     *copies.Copies
	hostMemory *hostmemory.HostMemory
	hostFuncs  *hostfuncs.HostFuncs
	memory     *memory.Memory
	pools      *pools.Pools
	sharing    *sharing.Sharing
	graphs     *graphs.Graphs
	greens     *green.Greens
	textures   *textures.Textures

	// When commands are executed, and who waits.
	waiting  *waiting.Waiting
	sleeping *sleeping.Sleeping
	door     *admission.Door // to the gate
	batches  *batches.Batches
	shortage *shortage.Shortage

	// What the device process asks for, and is told.
	standstill *standstill.Halt
	suspension *suspension.Suspension
	precopied  *precopied.Copy
	filed      *filed.Memory
	saving     *saving.Saving
	history    *history.History // nil: the device's state can't be saved
	reach      *reach.Reach
	faults     *faults.Faults
}

// assemble makes the rooms, which need the driver.
func (w *Worker) assemble() {
	w.maps = maps.New(w.queue, w.log)
	w.buffers = call.Buffers{
		Bulk:   func(offset, bytes uint64) ([]byte, error) { return w.arena.Bulk(offset, bytes) },
		Pages:  w.maps.Pages,
		Host:   w.host,
		Copied: func(bytes uint64) { w.state.Count(handover.BytesCopied, bytes) },
	}
	w.current = call.New(&w.buffers)
	w.shortage = shortage.New(shortage.Config{
		Lacks: w.accounts.Short,
		Ask: func(bytes uint64) error {
			return w.send(&handover.Message{Kind: handover.KindRoom, Bytes: bytes})
		},
	})
	w.faults = faults.New(func() int { return currentGPU(w.driver) }, w.send)
	w.makeCommon()
	w.makeBatches()
	w.makeWaiting()
	w.makeMemory()
	w.makeWork()
	w.makeCopies()
	w.makeSleeping()
	w.makeHolding()
	w.buildTable()
}

// currentGPU is the GPU of a driver's current context.
func currentGPU(driver gpubackend.Driver) int {
	if d, ok := driver.(interface{ CurrentGPU() int }); ok {
		return d.CurrentGPU()
	}
	return 0
}

// makeCommon makes what rooms have in common, and the launcher, which another context flushes.
func (w *Worker) makeCommon() {
	w.hello = hello.New(hello.Config{
		Driver: w.driver, Accounts: w.accounts, OtherGPU: w.policy.OtherGPU,
		First:  func() bool { return w.arena.Executed() == 0 },
		Opened: func() { countStart(w.state, w.warm) },
	})
	w.contexts = contexts.New(w.driver, &w.objects, func() { w.launcher.Flush() })
	w.fences = fences.New(w.driver, w.contexts)
	w.streams = streams.New(w.driver, w.contexts, &w.objects)
	w.kernels = code.New(w.driver, &w.objects)
	w.launcher = launches.New(launches.Config{
		Driver: w.driver, Objects: &w.objects, Streams: w.streams, Kernels: w.kernels,
		Fail:  func(result gpubackend.Result) { w.finish(0, 0, false, result, nil) },
		Count: func(n handover.Counter, by uint64) { w.state.Count(n, by) },
	})
	w.exports = exports.New(w.control, w.hello.GPUs, w.offers.ReceiveCreated, w.log)
}

// makeWaiting makes the room of calls that wait.
func (w *Worker) makeWaiting() {
	w.waiting = waiting.New(waiting.Config{
		Driver: w.driver, Contexts: w.contexts, Fences: w.fences, Streams: w.streams,
		Objects: &w.objects, Arena: func() waiting.Arena { return w.arena },
		Finish: w.finish, WakeGuest: w.queue.WakeSleepers,
		Ended:   func() { w.pools.Settle() },
		Gate:    w.door,
		PollAll: func() { w.pollWaiters() },
	})
}

// makeMemory makes the rooms that have memory.
func (w *Worker) makeMemory() {
	w.hostMemory = hostmemory.New(hostmemory.Config{
		Driver: w.driver, Maps: w.maps, Places: w.places, Files: w.queue.FilesOf,
		WhenIdle: w.waiting.WhenIdle,
		Mapped:   func(bytes uint64) { w.state.Count(handover.BytesMapped, bytes) }, Log: w.log,
	})
	w.sharing = sharing.New(sharing.Config{
		Driver: w.driver, Objects: &w.objects, Contexts: w.contexts, WhenIdle: w.waiting.WhenIdle,
		Watch: func() { w.copies.Watch() }, Offers: w.offers, Log: w.log,
	})
	w.pools = pools.New(pools.Config{
		Driver: w.driver, Objects: &w.objects, Contexts: w.contexts, Fences: w.fences,
		Streams: w.streams, Exports: w.exports, Offers: w.offers,
		WhenIdle: w.waiting.WhenIdle, Withdraw: w.sharing.Withdraw, Log: w.log,
		Short: func() bool { return w.accounts.Short() > 0 },
	})
	w.memory = memory.New(memory.Config{
		Driver: w.driver, Objects: &w.objects, Places: w.places, Exports: w.exports,
		Offers: w.offers, Log: w.log,
		WhenIdle: w.waiting.WhenIdle, MakeRoom: w.pools.Empty,
		Ending: func(address, bytes uint64) { w.copies.EndLoans(address, bytes) },
	})
}

// makeWork makes the rooms that have work for the device.
func (w *Worker) makeWork() {
	w.hostFuncs = hostfuncs.New(hostfuncs.Config{
		Driver: w.driver, Streams: w.streams, Arena: func() hostfuncs.Arena { return w.arena },
		WakeGuest: w.queue.WakeSleepers, WakeLoop: func() { w.files.Wake() },
	})
	w.greens = green.New(green.Config{
		Driver: w.driver, Objects: &w.objects, Contexts: w.contexts, Streams: w.streams,
	})
	w.textures = textures.New(textures.Config{Driver: w.driver, Objects: &w.objects,
		Streams: w.streams, Home: w.contexts.Home})
	w.graphs = graphs.New(graphs.Config{
		Driver: w.driver, Objects: &w.objects, Streams: w.streams, Kernels: w.kernels,
		Keep: w.hostFuncs.Keep,
	})
	w.functions = functions.New(functions.Config{
		Driver: w.driver, Objects: &w.objects, Streams: w.streams, Kernels: w.kernels,
		Graphs: w.graphs, Home: w.contexts.Home,
	})
}

// makeCopies makes the copies, which use most of the others.
func (w *Worker) makeCopies() {
	w.reach = &reach.Reach{Dial: w.dial, Send: w.send}
	w.copies = copies.New(copies.Config{
		Driver: w.driver, Contexts: w.contexts, Fences: w.fences,
		Streams: w.streams, Maps: w.maps, NeedMover: w.reach.Need,
		Arena:       func() copies.Arena { return w.arena },
		Synchronize: w.waiting.Synchronize,
		May:         func() bool { return !w.standstill.Drains() && w.door.May() },
		WhenDone:    w.waiting.WhenDone, Await: w.waiting.Await, AtAddress: w.hostMemory.AtAddress,
		MappedAt: w.memory.At,
		MakeRoom: w.pools.Empty, Gone: w.sharing.WithdrawIn,
		StagingBytes: func() uint64 { return w.policy.StagingBytes }, Failed: w.failed,
		Count: func(n handover.Counter, by uint64) { w.state.Count(n, by) }, Log: w.log,
	})
	w.reach.Copies = w.copies
}

// makeSleeping makes what the loop does when there is nothing to do.
func (w *Worker) makeSleeping() {
	w.sleeping = sleeping.New(sleeping.Config{
		Files: w.files, Arena: func() *arena.Arena { return w.arena }, Queue: w.queue,
		Gate: w.door, Calls: w.waiting, Copies: w.copies, HostFuncs: w.hostFuncs,
		Mover: w.copies, Held: w.heldBack, Grows: w.batches.Until,
		Spin: func() time.Duration {
			return time.Duration(w.policy.SpinHostUs) * time.Microsecond
		},
		Watchdog: w.watchdog,
		Count:    func(n handover.Counter, by uint64) { w.state.Count(n, by) },
	})
}

// drained is the context whose work the driver would wait for: that of the call, if this would hold
// up others. Where there is one context alone, the driver waits: work that other threads queue
// meanwhile doesn't prolong that.
func (w *Worker) drained(c *call.Call) uint64 {
	if w.objects.Count(object.Context) < 2 {
		return 0
	}
	return c.Context
}

// buildTable makes the table of handlers from what the rooms register. Where a handler has several
// steps around it, the step that was added last comes first.
func (w *Worker) buildTable() {
	w.table = call.Table{}
	w.protocol = protocol.New(protocol.Config{
		Maps: w.maps, Holds: w.hostMemory.Holds, EndThread: w.streams.EndThread, Log: w.log,
	})
	for _, room := range []interface{ Handlers() call.Handlers }{
		w.protocol, w.hello, w.waiting, w.functions, w.launcher, w.copies, w.hostMemory,
		w.hostFuncs, w.memory, w.pools, w.sharing, w.greens, w.textures,
	} {
		w.table.Add(room.Handlers())
	}
	ends := &endings.Endings{
		Contexts: w.contexts, Streams: w.streams, Objects: &w.objects, Greens: w.greens,
		Rooms: []endings.Room{w.kernels, w.pools, w.sharing, w.fences, w.textures},
	}
	for _, room := range []interface{ Steps() call.Steps }{
		ends, w.waiting, w.kernels, w.graphs, w.pools, w.sharing, w.textures,
	} {
		w.table.Wrap(room.Steps())
	}
	if w.history != nil {
		w.table.Wrap(w.history.Steps())
	}
	ending := ends.Ending()
	ending[gpubackend.OpGreenCtxDestroy] = w.greens.ContextOf
	for _, op := range waiting.Draining {
		ending[op] = w.drained
	}
	w.table.Wrap(w.waiting.After(ending))
}
