// SPDX-License-Identifier: Apache-2.0

// Package figures has the numbers that a VM reports: its owner asks for them on the control socket
// (package admin), and an arbiter gets them now and then (package link). Both get the same numbers.
//
// # Who owns what
//
// Nothing is owned here: others count, and their numbers are collected anew each time.
//
// # Who may lie
//
// Guests give their programs' names, and workers their counters. An arbiter gets bounded ones,
// without characters that could control a terminal.
package figures

import (
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/holdings"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// Settings are those of a VM: settings.VM.
type Settings interface {
	Values() map[string]string
	Turns() *link.VM // by the arbiter; nil: there is none
}

// Config is where the numbers come from. Each is asked without a lock held.
type Config struct {
	GPU      string // "soft" or "cuda"
	Settings Settings
	Counters func() handover.Counters // of all programs since the VM began
	Programs func() []admin.Program   // that run now
	Memory   func() map[string]uint64 // of all GPUs together, by kind
	GPUs     func() []holdings.GPU    // of each that it uses
	OnEach   func() []uint64          // of each that it has
	State    func() suspend.Status    // whether it is suspended
	Faults   func() []link.Fault      // of its GPUs
	Stays    func() error             // why it can't be saved or migrated
}

// VM is what can be reported of one.
type VM struct{ config Config }

// Of returns the figures of a VM.
func Of(c Config) *VM { return &VM{c} }

// Owner is what the VM's owner is told.
func (v *VM) Owner() admin.Answer {
	state := v.config.State()
	a := admin.Answer{
		GPU: v.config.GPU, Turns: v.config.Settings.Turns(), State: &state,
		Movable: &admin.Movable{Now: true}, Stats: v.config.Counters().Map(),
		Policies: v.config.Settings.Values(), Programs: v.config.Programs(),
		Memory: v.config.GPUs(),
	}
	if why := v.config.Stays(); why != nil {
		a.Movable = &admin.Movable{Why: why.Error()}
	}
	return a
}

// programCounters are the counters of each program that an arbiter is told. Of the VM it is told
// all.
var programCounters = []string{
	"gpu_time_ns", "turn_wait_ns", "turns_used", "turns_overrun",
	"launches", "copies", "bytes_copied", "bytes_mapped", "bytes_direct", "errors",
}

// Arbiter is what an arbiter is told.
func (v *VM) Arbiter() *link.Figures {
	f := &link.Figures{Counters: v.config.Counters().Map(), Memory: v.config.Memory(),
		OnEach: v.config.OnEach(), Faults: v.config.Faults()}
	if s := v.config.State().State; s != suspend.Running {
		f.State = string(s)
	}
	for _, p := range v.config.Programs() {
		f.Processes = append(f.Processes, link.Process{
			PID: p.PID, Name: p.Name, Memory: p.Memory, Counters: some(p.Stats),
		})
	}
	f.Clean()
	return f
}

// some are those of a program's counters that an arbiter is told.
func some(all map[string]uint64) map[string]uint64 {
	told := map[string]uint64{}
	for _, name := range programCounters {
		if n, ok := all[name]; ok {
			told[name] = n
		}
	}
	return told
}
