// SPDX-License-Identifier: Apache-2.0

package handover

// Counter is one of the figures that `paracuda stats` prints, and `--stats` writes.
type Counter int

// The counters. Described says what each counts; docs/reference.md says more.
const (
	Commands Counter = iota
	Batches
	Kicks
	Interrupts
	BytesCopied
	BytesMapped
	BytesDirect
	Sleeps
	Chains
	Launches
	Copies
	Errors
	OutputDropped
	LaunchFlushes
	RingReleases
	// Why batches ended: each batch counts in one of these.
	BatchesDrained
	BatchesAnswered
	BatchesFull
	BatchesFullBytes
	BatchesDelayed
	BatchesStalled
	BatchesHeld
	// GPUTime is in nanoseconds.
	GPUTime
	// What a program has of its VM's turns. The wait is in nanoseconds.
	TurnWait
	TurnsUsed
	TurnsOverrun
	// Counted by the device process.
	Starts
	WarmStarts
	counters
)

// Measure is what a counter counts.
type Measure int

// The units.
const (
	Times Measure = iota
	Bytes
	Nanoseconds
)

// Described is a counter for people: its name, also in JSON, its unit, and what it counts.
var Described = [counters]struct {
	Name    string
	Measure Measure
	Help    string
}{
	Commands:    {"commands", Times, "commands that workers executed"},
	Batches:     {"batches", Times, "groups of commands that were executed together"},
	Kicks:       {"kicks", Times, "times that the guest woke a worker that slept"},
	Interrupts:  {"interrupts", Times, "times that a worker interrupted the guest"},
	BytesCopied: {"bytes_copied", Bytes, "payload that a processor copied, in guest or host"},
	BytesMapped: {"bytes_mapped", Bytes, "payload that went by reference to the guest's pages, " +
		"and memory that was pinned"},
	BytesDirect: {"bytes_direct", Bytes, "of these, what the mover copied without staging memory"},
	Sleeps:      {"sleeps", Times, "times that a worker went to sleep"},
	Chains:      {"chains", Times, "descriptor chains that workers took"},
	Launches:    {"launches", Times, "kernels that were launched"},
	Copies:      {"copies", Times, "copies between host and device, or within the device"},
	Errors:      {"errors", Times, "commands that ended with an error"},
	OutputDropped: {"output_dropped", Times,
		"records of kernels' printf that found no room"},
	LaunchFlushes: {"launch_flushes", Times,
		"times that collected launches were given to the GPU's driver"},
	RingReleases: {"ring_releases", Times,
		"times that bytes of the ring were given back within a batch"},
	BatchesDrained: {"batches_drained", Times,
		"batches that ended since there was nothing more in the ring"},
	BatchesAnswered: {"batches_answered", Times,
		"the same, behind a command whose answer is awaited"},
	BatchesFull:      {"batches_full", Times, "batches that ended at batch-commands"},
	BatchesFullBytes: {"batches_full_bytes", Times, "batches that ended at batch-bytes"},
	BatchesDelayed:   {"batches_delayed", Times, "batches that grew until batch-delay was over"},
	BatchesStalled: {"batches_stalled", Times,
		"batches that ended since too many calls waited already"},
	BatchesHeld: {"batches_held", Times,
		"batches that ended since the VM's turn on the GPU, or work that was there, came first"},
	GPUTime: {"gpu_time_ns", Nanoseconds,
		"time for which programs had work on the GPU, added up over them"},
	TurnWait: {"turn_wait_ns", Nanoseconds,
		"time for which programs' commands waited for the VM's turn, added up over them"},
	TurnsUsed: {"turns_used", Times,
		"turns of the VM in which a program gave the GPU work, added up over them"},
	TurnsOverrun: {"turns_overrun", Times,
		"turns of the VM after which a program's work did not end in time, added up over them"},
	Starts:     {"starts", Times, "programs that initialised CUDA"},
	WarmStarts: {"warm_starts", Times, "those of them that found a warm worker"},
}

// Counters is a reading of all counters.
type Counters [counters]uint64

// Add adds o to c.
func (c *Counters) Add(o Counters) {
	for i := range c {
		c[i] += o[i]
	}
}

// Map returns the counters by name.
func (c Counters) Map() map[string]uint64 {
	m := make(map[string]uint64, len(c))
	for i, n := range c {
		m[Described[i].Name] = n
	}
	return m
}

// CommandsPerBatch is the mean size of a batch, 0 while there was none.
func (c Counters) CommandsPerBatch() float64 {
	if c[Batches] == 0 {
		return 0
	}
	return float64(c[Commands]) / float64(c[Batches])
}
