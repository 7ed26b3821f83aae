// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

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
	d.mu.Lock()
	defer d.mu.Unlock()
	f.Memory = d.accounts.All()
	for _, c := range d.channels {
		if w := c.worker; w != nil {
			f.Processes = append(f.Processes, link.Process{
				PID: w.pid, Name: w.comm, Memory: d.accounts.Of(w),
				Counters: some(w.state.Counters()),
			})
		}
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
