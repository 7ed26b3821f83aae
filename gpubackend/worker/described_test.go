// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
)

// TestDescribedCommandsAreExecuted finds a handler of every command that is described, with what
// the description says.
func TestDescribedCommandsAreExecuted(t *testing.T) {
	table := &newRig(t).table
	for op, l := range command.Layouts {
		h := table.Find(gpubackend.Op(op))
		if h == nil {
			t.Errorf("%s has no handler", l.Name)
			continue
		}
		if h.Words != l.Words || h.NoContext != l.NoContext {
			t.Errorf("%s: %d words, needs no context: %v", l.Name, h.Words, h.NoContext)
		}
	}
}
