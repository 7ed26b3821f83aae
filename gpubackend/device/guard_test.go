// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// faulty panics while it starts workers, if it is told to.
type faulty struct {
	stubs
	panics atomic.Bool
}

func (f *faulty) Worker(control *os.File) (Process, error) {
	if f.panics.Load() {
		panic("no worker today")
	}
	return f.stubs.Worker(control)
}

// TestFaultCostsOneProgram: a panic while a program's request is obeyed is that program's error.
// The device goes on.
func TestFaultCostsOneProgram(t *testing.T) {
	spawn := &faulty{}
	v := greetedVM(t, spawn, Timeouts{})
	said := v.listen()
	spawn.panics.Store(true)
	if a := v.ask(wire.ControlRequest{Type: wire.ControlOpen, Channel: 0,
		Pid: 9}); a.Status != wire.StatusNoWorker {
		t.Errorf("status %d", a.Status)
	}
	if text := said.String(); !strings.Contains(text, "a request panicked: no worker today") {
		t.Errorf("the log says %q", text)
	}
	spawn.panics.Store(false)
	v.open(0)
	v.open(1)
}
