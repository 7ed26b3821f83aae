// SPDX-License-Identifier: Apache-2.0

package device

import (
	"net"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/device/ahead"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// ServeAdmin answers the owner of the VM on a control socket until it is closed.
func (d *Device) ServeAdmin(l net.Listener) {
	(&admin.VM{
		Set: d.Set, Holds: d.settings.Holds, Stats: d.stats, MayChange: d.place.MayChange,
		Suspend: d.suspension.Suspend, Resume: d.suspension.Resume,
		Version: d.config.Build, Replace: d.config.Replace,
		SuspendTo: d.saving.Save, ResumeFrom: d.saving.Load, Guard: d.guard, Log: d.log,
	}).Serve(l)
}

// stats are what the owner is told of the VM.
func (d *Device) stats() admin.Answer {
	state := d.suspension.Status()
	a := admin.Answer{GPU: d.config.GPU, Turns: d.settings.Turns(), State: &state,
		Movable: &admin.Movable{Now: true}}
	a.Stats = d.Counters().Map()
	a.Policies = d.settings.Values()
	for _, w := range d.channels.Serving() {
		p := w.Program()
		a.Programs = append(a.Programs, admin.Program{
			Channel: w.Channel(), PID: p.PID, Name: p.Name,
			Stats: w.Counters().Map(), Memory: d.accounts.Of(w), Fixed: w.Fixed(),
		})
	}
	a.Memory = d.accounts.GPUs()
	if why := d.unsaved(); why != nil {
		a.Movable = &admin.Movable{Why: why.Error()}
	}
	return a
}

// programCounters are those that are told of each program; of the VM, all are.
var programCounters = []string{
	"gpu_time_ns", "launches", "copies", "bytes_copied", "bytes_mapped", "bytes_direct", "errors",
}

// Figures are what an arbiter is told of the VM now and then.
func (d *Device) Figures() *link.Figures {
	f := &link.Figures{Counters: d.Counters().Map()}
	if s := d.suspension.State(); s != suspend.Running {
		f.State = string(s)
	}
	f.Memory = d.accounts.All()
	for _, w := range d.channels.Serving() {
		p := w.Program()
		f.Processes = append(f.Processes, link.Process{
			PID: p.PID, Name: p.Name, Memory: d.accounts.Of(w), Counters: some(w.Counters()),
		})
	}
	f.Clean()
	return f
}

// some are the counters of a program that are told.
func some(c handover.Counters) map[string]uint64 {
	all, told := c.Map(), map[string]uint64{}
	for _, name := range programCounters {
		if n, ok := all[name]; ok {
			told[name] = n
		}
	}
	return told
}

// Warm is what an arbiter is told of the VM's warm workers.
func (d *Device) Warm() *link.Warm {
	want, used := d.ahead.Wants()
	return &link.Warm{Want: want, Used: used}
}

// WarmNews has something when Warm says something else than before.
func (d *Device) WarmNews() <-chan struct{} { return d.ahead.News() }

// BoundWarm bounds how many workers are kept warm, whatever the VM's owner wants; ahead.Any: it
// doesn't.
func (d *Device) BoundWarm(n int) { d.ahead.Bound(n) }

// AnyWarm says that nobody bounds the warm workers.
const AnyWarm = ahead.Any
