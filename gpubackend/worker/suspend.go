// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
	"github.com/paracuda/paracuda/gpubackend/worker/standstill"
	"github.com/paracuda/paracuda/gpubackend/worker/suspension"
)

// makeHolding makes what has the worker stand still, and what moves its device memory then.
func (w *Worker) makeHolding() {
	w.suspension = suspension.New(suspension.Config{
		Driver: w.driver, Recall: w.copies.Recall, Images: w.images,
		Shared: func(address, bytes uint64) bool {
			return w.sharing.Has(address, bytes) || w.pools.Shares(address, bytes)
		},
	})
	w.makeSaving()
	w.standstill = standstill.New(standstill.Config{
		Driver: w.driver, Contexts: w.contexts, Objects: &w.objects, Copies: w.copies,
		Calls: w.waiting, HostFuncs: w.hostFuncs, Launcher: w.launcher, Graphs: w.graphs,
		Gate: w.door, Memory: w.suspension, Program: w.saving, Sleeper: w.sleeping,
		Send:     w.send,
		Messages: func() <-chan inbox.Received { return w.messages },
		Obey:     w.obey, Poll: w.pollWaiters,
		Execute: func() error {
			_, err := w.runCommands()
			return err
		},
		TakeChains: func() error {
			_, err := w.queue.Take()
			w.queue.Signal()
			return err
		},
		Turn: w.watchdog.Turn, Asleep: &w.watchdog.Asleep,
		Begin: w.tellFixed, Paused: w.dirty.MarkHeld,
	})
}
