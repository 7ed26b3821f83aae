// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"sync"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// All are the workers of a VM that serve a program now. A worker that begins meanwhile is told when
// it begins.
type All func() []*Worker

// Memory tells them of other memory of the guest's, in a message for those that ask for mappings or
// one for the others, and waits until they have let go of the previous one.
func (all All) Memory(message func(asks bool) (*handover.Message, []int)) {
	all.tell(func(w *Worker) error {
		m, files := message(w.Asks())
		return w.Obey(m, files, handover.KindDone, "a process did not take the new memory")
	})
}

// Log tells them where to mark the pages that they write to, and waits until they do.
func (all All) Log(message func() (*handover.Message, []int)) {
	all.tell(func(w *Worker) error {
		m, files := message()
		return w.Obey(m, files, handover.KindLogged,
			"a process did not take the log of dirty pages")
	})
}

// tell tells them something and waits until they follow it. One that doesn't answer is killed,
// which has the same effect in the end.
func (all All) tell(tell func(*Worker) error) {
	var told sync.WaitGroup
	for _, w := range all() {
		told.Go(func() {
			if !w.Killed() && tell(w) == nil {
				return
			}
			w.Kill()
			w.AwaitEnd()
		})
	}
	told.Wait()
}

// Policy tells them of other settings.
func (all All) Policy(p handover.Policy) {
	for _, w := range all() {
		w.Tell(&handover.Message{Kind: handover.KindPolicy, Policy: &p}, nil)
	}
}

// A VM is suspended in steps, each of which all workers take before the next (package suspend).
// Workers that end meanwhile need nothing more; those that start begin as drained ones.

// Suspended are the workers as package suspend sees them.
func (all All) Suspended() (list []suspend.Worker) {
	for _, w := range all() {
		list = append(list, w)
	}
	return list
}

// GoOn lets them go on after that.
func (all All) GoOn() {
	for _, w := range all() {
		w.Tell(&handover.Message{Kind: handover.KindGoOn}, nil)
	}
}
