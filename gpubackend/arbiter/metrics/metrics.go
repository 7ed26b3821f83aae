// SPDX-License-Identifier: Apache-2.0

// Package metrics tells Prometheus what an arbiter's VMs have of the GPUs. A metric that means the
// same as one of dcgm-exporter, for a VM's part of the GPU, has its name.
//
// It writes the text format by itself: Prometheus's own library made each start of a worker, which
// is the same program, 3 ms slower.
//
// Who may lie: guests name their processes and start as many as they like. Labels are short and
// printable. Figures of processes are exported only if the operator wants that, since each process
// makes series of its own.
package metrics

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/size"
)

// Source tells about all VMs.
type Source func() []link.VM

// figure is a figure of a VM.
type figure struct {
	name, help string
	kind       string
	value      func(*link.VM) (v float64, ok bool)
}

const (
	counter = "counter"
	gauge   = "gauge"
	mebi    = 1 << 20
)

// figures are those that each VM has.
var figures = []figure{
	{"DCGM_FI_DEV_GPU_UTIL", "Part of the last second for which the VM had the GPU (in %).", gauge,
		func(v *link.VM) (float64, bool) { return 100 * v.Share, true }},
	{"DCGM_FI_DEV_FB_USED", "Memory of the GPU that the VM has (in MiB).", gauge,
		func(v *link.VM) (float64, bool) { return memory(v) / mebi, hasMemory(v) }},
	{"DCGM_FI_DEV_FB_FREE", "Memory of the GPU that the VM may still have (in MiB).", gauge,
		func(v *link.VM) (float64, bool) {
			total, ok := total(v)
			return max(0, total-memory(v)/mebi), ok && hasMemory(v)
		}},
	{"DCGM_FI_DEV_FB_TOTAL", "Memory of the GPU that the VM may have (in MiB).", gauge, total},
	{"paracuda_memory_guarantee_bytes", "Memory of the GPU that others leave to the VM.", gauge,
		func(v *link.VM) (float64, bool) { return bound(v, "memory-guarantee", 1) }},
	{"paracuda_held_seconds_total", "Time of the GPU that the VM was charged for.", counter,
		func(v *link.VM) (float64, bool) { return seconds(v.HeldNS), true }},
	{"paracuda_waited_seconds_total", "Time for which the VM had work and no turn.", counter,
		func(v *link.VM) (float64, bool) { return seconds(v.WaitedNS), true }},
	{"paracuda_debt_seconds", "Time of the GPU by which the VM is ahead of its share.", gauge,
		func(v *link.VM) (float64, bool) { return seconds(v.DebtNS), true }},
	{"paracuda_turns_total", "Turns that the VM had.", counter,
		func(v *link.VM) (float64, bool) { return float64(v.Turns), true }},
	{"paracuda_overruns_total", "Turns whose work did not end in time.", counter,
		func(v *link.VM) (float64, bool) { return float64(v.Overruns), true }},
	{"paracuda_weight", "Weight of the VM's share.", gauge,
		func(v *link.VM) (float64, bool) { return number(v.Policy["weight"]) }},
	{"paracuda_time_limit_percent", "Time of the GPU that the VM may have at most.", gauge,
		func(v *link.VM) (float64, bool) { return number(v.Policy["time-limit"]) }},
	{"paracuda_processes", "Processes of the guest that use the GPU.", gauge,
		func(v *link.VM) (float64, bool) {
			return float64(len(told(v).Processes)), v.Figures != nil
		}},
	{"paracuda_gpu_seconds_total", "Time for which the VM's processes had work on the GPU, " +
		"added up.", counter,
		ofVM(inSeconds("gpu_time_ns"))},
	{"paracuda_launches_total", "Kernels that were launched.", counter, ofVM(times("launches"))},
	{"paracuda_copied_bytes_total", "Bytes that were copied.", counter,
		func(v *link.VM) (float64, bool) { return copied(told(v).Counters), v.Figures != nil }},
	{"paracuda_errors_total", "Commands that ended with an error.", counter,
		ofVM(times("errors"))},
	{"paracuda_gpu_faults", "GPUs of the VM that answered that they are broken, or gone.", gauge,
		func(v *link.VM) (float64, bool) {
			broken := map[int]bool{}
			for _, f := range told(v).Faults {
				broken[f.GPU] = true
			}
			return float64(len(broken)), v.Figures != nil
		}},
	{"paracuda_swaps_total", "Times that the VM's memory moved out.", counter,
		func(v *link.VM) (float64, bool) { return float64(v.Swaps), swaps(v) }},
	{"paracuda_swapped_bytes_total", "Bytes of the VM's memory that moved, out and in.", counter,
		func(v *link.VM) (float64, bool) { return float64(v.Swapped), swaps(v) }},
	{"paracuda_swap_failures_total", "Times that the VM's memory was to move and couldn't.",
		counter, func(v *link.VM) (float64, bool) { return float64(v.Unmoved), swaps(v) }},
	{"paracuda_swapping_seconds_total", "Time for which the VM's memory was moved.", counter,
		func(v *link.VM) (float64, bool) { return seconds(v.SwapNS), swaps(v) }},
	{"paracuda_swapped_out_seconds_total", "Time for which the VM's memory was out.", counter,
		func(v *link.VM) (float64, bool) { return seconds(v.OutNS), swaps(v) }},
}

// swaps says whether a VM's memory takes turns on the GPU.
func swaps(v *link.VM) bool { return v.Place != "" }

// told are a VM's figures, empty if it has sent none.
func told(v *link.VM) *link.Figures {
	if v.Figures == nil {
		return &link.Figures{}
	}
	return v.Figures
}

// ofVM is one of a VM's counters.
func ofVM(of func(map[string]uint64) (float64, bool)) func(*link.VM) (float64, bool) {
	return func(v *link.VM) (float64, bool) { return of(told(v).Counters) }
}

func copied(c map[string]uint64) float64 {
	return float64(c["bytes_copied"] + c["bytes_mapped"] + c["bytes_direct"])
}

func seconds(ns uint64) float64 { return float64(ns) / float64(time.Second) }

func number(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

// bound is a size of a policy, which is of each GPU, over all that the VM has: so is what it has.
func bound(v *link.VM, key string, unit float64) (float64, bool) {
	n, err := size.Parse(v.Policy[key])
	return float64(v.OnAll(n)) / unit, err == nil
}

// total is what a VM may have of memory, in MiB: its bound, or else what its GPUs have.
func total(v *link.VM) (float64, bool) {
	if most, ok := bound(v, "memory", mebi); ok {
		return most, true
	}
	return float64(v.Memory()) / mebi, v.Memory() != 0
}

func hasMemory(v *link.VM) bool { return len(told(v).Memory) > 0 }

func memory(v *link.VM) float64 { return sum(told(v).Memory) }

func sum(kinds map[string]uint64) (s float64) {
	for _, n := range kinds {
		s += float64(n)
	}
	return s
}

// Text returns the metrics, in Prometheus's text format 0.0.4.
func Text(vms []link.VM, processes bool) string {
	var t text
	for _, f := range figures {
		t.begin(f.name, f.help, f.kind)
		for i := range vms {
			if value, ok := f.value(&vms[i]); ok {
				t.line(value, labelsOf(&vms[i])...)
			}
		}
	}
	t.begin("paracuda_memory_bytes", "Memory of the GPU that the VM has, by kind.", gauge)
	for i := range vms {
		t.kinds(told(&vms[i]).Memory, labelsOf(&vms[i]))
	}
	if processes {
		t.ofProcesses(vms)
	}
	return t.String()
}

// kinds writes a line for each kind of memory.
func (t *text) kinds(kinds map[string]uint64, labels []label) {
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.line(float64(kinds[kind]), append(slices.Clip(labels), label{"kind", kind})...)
	}
}

// processFigure is a counter of each process.
type processFigure struct {
	name, help string
	value      func(counters map[string]uint64) (v float64, ok bool)
}

// processFigures are those that each process has.
var processFigures = []processFigure{
	{"paracuda_process_gpu_seconds_total", "Time for which a process had work on the GPU.",
		inSeconds("gpu_time_ns")},
	{"paracuda_process_waited_seconds_total",
		"Time for which commands of a process waited for its VM's turn.",
		inSeconds("turn_wait_ns")},
	{"paracuda_process_turns_total",
		"Turns of its VM in which a process gave the GPU work.", times("turns_used")},
	{"paracuda_process_overruns_total",
		"Turns of its VM after which work of a process did not end in time.",
		times("turns_overrun")},
	{"paracuda_process_launches_total", "Kernels that a process launched.", times("launches")},
	{"paracuda_process_copied_bytes_total", "Bytes that a process copied.",
		func(c map[string]uint64) (float64, bool) { return copied(c), len(c) > 0 }},
	{"paracuda_process_errors_total", "Commands of a process that ended with an error.",
		times("errors")},
}

// times is a counter of how often something happened.
func times(name string) func(map[string]uint64) (float64, bool) {
	return func(c map[string]uint64) (float64, bool) {
		n, ok := c[name]
		return float64(n), ok
	}
}

// inSeconds is a counter of nanoseconds.
func inSeconds(name string) func(map[string]uint64) (float64, bool) {
	return func(c map[string]uint64) (float64, bool) {
		ns, ok := c[name]
		return seconds(ns), ok
	}
}

// ofProcesses writes the metrics of guests' processes.
func (t *text) ofProcesses(vms []link.VM) {
	for _, f := range processFigures {
		t.begin(f.name, f.help, counter)
		eachProcess(vms, func(p *link.Process, labels []label) {
			if value, ok := f.value(p.Counters); ok {
				t.line(value, labels...)
			}
		})
	}
	t.begin("paracuda_process_memory_bytes", "Memory of the GPU that a process has, by kind.",
		gauge)
	eachProcess(vms, func(p *link.Process, labels []label) { t.kinds(p.Memory, labels) })
}

// eachProcess calls f with each process, and its labels.
func eachProcess(vms []link.VM, f func(*link.Process, []label)) {
	for i := range vms {
		seen := map[int32]bool{} // a pid may come twice, but a series must not
		list := told(&vms[i]).Processes
		for j := range list {
			p := &list[j]
			if seen[p.PID] {
				continue
			}
			seen[p.PID] = true
			f(p, append(labelsOf(&vms[i]),
				label{"pid", strconv.Itoa(int(p.PID))}, label{"process", link.Plain(p.Name)}))
		}
	}
}

// labelsOf are the labels of each figure of a VM.
func labelsOf(v *link.VM) []label { return []label{{"vm", v.Name}, {"gpu", gpusOf(v)}} }

// gpusOf are the names of a VM's GPUs.
func gpusOf(v *link.VM) string {
	names := make([]string, len(v.GPUs))
	for i, g := range v.GPUs {
		names[i] = g.Name
	}
	return strings.Join(names, ",")
}

// Bounds on what scrapers take.
const (
	maxScrapers = 16
	timeout     = 10 * time.Second
)

// Serve answers scrapes at /metrics until the listener is closed.
func Serve(l net.Listener, source Source, processes bool) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write([]byte(Text(source(), processes))) // a scraper that doesn't read it is gone
	})
	s := http.Server{
		Handler: mux, ReadTimeout: timeout, WriteTimeout: timeout, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 8 << 10,
	}
	return s.Serve(newBounded(l, maxScrapers))
}
