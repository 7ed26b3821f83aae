// SPDX-License-Identifier: Apache-2.0

package show

import (
	"github.com/paracuda/paracuda/cmd/paracuda/manual"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Lists explain what a command prints.
func Lists(command string) []manual.List {
	switch command {
	case "stats":
		return []manual.List{
			{Heading: "LINES", Title: "Lines before the counters", Items: statsLines},
			{Heading: "COUNTERS", Title: "Counters, since the VM started: of all its programs, " +
				"and of each that runs now", Items: counters()},
		}
	case "top":
		return []manual.List{
			{Heading: "COLUMNS", Title: "Columns of VMs", Items: topColumns},
			{Heading: "PROCESSES", Title: "Columns of their processes", Items: processColumns},
		}
	case "ps":
		return []manual.List{{Heading: "COLUMNS", Title: "Columns", Items: psColumns}}
	}
	return nil
}

// counters are all that stats prints.
func counters() (all []manual.Item) {
	for _, c := range handover.Described {
		all = append(all, manual.Item{Name: shown(c.Name), Help: c.Help})
	}
	return append(all,
		manual.Item{Name: batchMean, Help: "how many commands a batch had, on average"},
		manual.Item{Name: memoryKind + "KIND", Help: "device memory of that kind: what a program " +
			"allocated (window, mapped, arrays, graphs), its contexts, limits, code and staging"})
}

var statsLines = []manual.Item{
	{Name: "gpu", Help: "soft or cuda"},
	{Name: "state", Help: "whether the VM is suspended"},
	{Name: "movable", Help: "whether it could be saved or migrated now, or why not"},
	{Name: "fixed", Help: "what a program has that can't be made anew elsewhere"},
	{Name: "trouble", Help: "what keeps the guest's driver from the device, and what fixes that"},
	{Name: "policies", Help: "those that hold: paracuda device --help explains them"},
	{Name: "turns", Help: "turns on the GPU; the time that it was charged for (held), that it " +
		"had work and no turn (waited), and by which it is ahead of its share (debt); turns " +
		"whose work did not end in time (overruns); its part of the last second (now)"},
	{Name: "device memory", Help: "what it has of each GPU, and of how much; of that, what the " +
		"mover and warm workers hold"},
}

var topColumns = []manual.Item{
	{Name: "VM", Help: "its name"},
	{Name: "TURN", Help: "* it has the GPU now, - it is alone and needs no turns, or suspended"},
	{Name: "GPU", Help: "part of the last moment for which it had the GPU"},
	{Name: "WEIGHT", Help: "its share among VMs that have work"},
	{Name: "LIMIT", Help: "the most that it may have of the GPU's time"},
	{Name: "CLASS", Help: "batch, or latency: it gets its turn as soon as it has work"},
	{Name: "GPU TIME", Help: "time for which its programs had work on the GPU, added up over them"},
	{Name: "TURNS", Help: "turns that it had"},
	{Name: "WAITED", Help: "time for which it had work and no turn"},
	{Name: "DEBT", Help: "time by which it is ahead of its share"},
	{Name: "OVERRUNS", Help: "turns whose work did not end in time"},
	{Name: "MEMORY", Help: "device memory that it has, and may have"},
	{Name: "LAUNCHES", Help: "kernels launched"},
	{Name: "COPIED", Help: "bytes that were copied"},
	{Name: "ERRORS", Help: "commands that ended with an error"},
	{Name: "PLACE", Help: "with memory-mode=swap: where its memory is"},
	{Name: "MOVING", Help: "with memory-mode=swap: part of the time for which it was moved"},
}

var processColumns = []manual.Item{
	{Name: "VM, PID, PROCESS", Help: "which one it is, by its number and its name in the guest"},
	{Name: "GPU TIME", Help: "time for which it had work on the GPU"},
	{Name: "TURNS", Help: "turns of its VM in which it gave the GPU work"},
	{Name: "WAITED", Help: "time for which its commands waited for its VM's turn"},
	{Name: "OVERRUNS", Help: "turns of its VM after which its work did not end in time"},
	{Name: "MEMORY", Help: "device memory that it has"},
	{Name: "LAUNCHES, COPIED, ERRORS", Help: "as above"},
}

var psColumns = []manual.Item{
	{Name: "VM", Help: "its name"},
	{Name: "GPU", Help: "its GPUs: soft, or their UUIDs"},
	{Name: "PROGRAMS", Help: "processes of the guest that use them"},
	{Name: "MEMORY", Help: "device memory that it has, and may have"},
	{Name: "WEIGHT", Help: "its share among VMs that have work"},
	{Name: "CLASS", Help: "batch, or latency: it gets its turn as soon as it has work"},
}
