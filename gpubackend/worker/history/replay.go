// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/worker/again"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// Replay executes commands again, by run. before is told what a command is about to make, and after
// what it has made.
func (h *History) Replay(
	executed []journal.Executed, run func(*call.Call) gpubackend.Result,
	before, after func(made []uint64) error,
) error {
	var command arena.Command
	c := call.New(h.Buffers)
	for i := range executed {
		e := &executed[i]
		if !kept(gpubackend.Op(e.Op)) {
			return fmt.Errorf("%w: %s isn't one that is kept", again.ErrCommand,
				gpubackend.Op(e.Op).Name())
		}
		if err := again.Command(e, &command); err != nil {
			return err
		}
		if err := before(e.Made); err != nil {
			return err
		}
		c.Start(&command)
		result := run(&c)
		h.Buffers.Release()
		if result != gpubackend.Success {
			return fmt.Errorf("execute %s again: %w", c.Op.Name(), result.Err())
		}
		if err := after(e.Made); err != nil {
			return err
		}
	}
	return nil
}

// kept says whether a history keeps such commands.
func kept(op gpubackend.Op) bool {
	for _, maker := range makers {
		if op == maker {
			return true
		}
	}
	_, ok := setters[op]
	return ok || op == gpubackend.OpDevicePrimaryCtxRelease
}
