// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/holdings"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// settings are those of a VM that an arbiter gives turns.
type settings struct{}

func (settings) Values() map[string]string { return map[string]string{"batch": "64"} }
func (settings) Turns() *link.VM           { return &link.VM{} }

// told is what is told of a VM with one program.
func told(state suspend.State, stays error) *VM {
	return Of(Config{
		GPU: "soft", Settings: settings{},
		Counters: func() (c handover.Counters) {
			c[handover.Launches] = 7
			return c
		},
		Programs: func() []admin.Program {
			return []admin.Program{{
				Channel: 2, PID: 9, Name: "pro\x1bgram",
				Stats: map[string]uint64{"launches": 5, "chains": 3, "turn_wait_ns": 8,
					"turns_used": 4, "turns_overrun": 1},
				Memory: map[string]uint64{"program": 4096},
				Fixed:  map[string]uint64{"linkers": 1},
			}}
		},
		Memory: func() map[string]uint64 { return map[string]uint64{"program": 8192, "Bad": 1} },
		GPUs:   func() []holdings.GPU { return make([]holdings.GPU, 2) },
		OnEach: func() []uint64 { return []uint64{8192, 0} },
		State:  func() suspend.Status { return suspend.Status{State: state, Image: 3} },
		Stays:  func() error { return stays },
		Faults: func() []link.Fault { return []link.Fault{{GPU: 1, Result: cudaabi.ErrorUnknown}} },
	})
}

// TestOwner is told all, and whether the VM can be moved.
func TestOwner(t *testing.T) {
	a := told(suspend.Running, nil).Owner()
	switch p := a.Programs[0]; {
	case a.GPU != "soft" || a.Policies["batch"] != "64" || a.Turns == nil || len(a.Memory) != 2:
		t.Errorf("%+v", a)
	case a.Stats["launches"] != 7 || a.State.Image != 3 || a.State.State != suspend.Running:
		t.Errorf("%+v", a)
	case p.Channel != 2 || p.Stats["chains"] != 3 || p.Fixed["linkers"] != 1:
		t.Errorf("%+v", p)
	case !a.Movable.Now || a.Movable.Why != "":
		t.Errorf("%+v", a.Movable)
	}
	m := told(suspend.Running, errors.New("a linker")).Owner().Movable
	if m.Now || m.Why != "a linker" {
		t.Errorf("%+v", m)
	}
}

// TestArbiter is told some of each program, and nothing that it hasn't asked for.
func TestArbiter(t *testing.T) {
	f := told(suspend.Running, nil).Arbiter()
	p := f.Processes[0]
	if len(f.Faults) != 1 || f.Faults[0].Result != cudaabi.ErrorUnknown {
		t.Errorf("%+v", f.Faults)
	}
	if f.State != "" || f.Counters["launches"] != 7 ||
		!maps.Equal(f.Memory, map[string]uint64{"program": 8192}) ||
		!slices.Equal(f.OnEach, []uint64{8192, 0}) {
		t.Errorf("%+v", f)
	}
	if p.PID != 9 || p.Name == "pro\x1bgram" || p.Memory["program"] != 4096 ||
		!maps.Equal(p.Counters, map[string]uint64{"launches": 5, "turn_wait_ns": 8,
			"turns_used": 4, "turns_overrun": 1}) {
		t.Errorf("%+v", p)
	}
	if f := told(suspend.Suspended, nil).Arbiter(); f.State != "suspended" {
		t.Errorf("%+v", f)
	}
}
