// SPDX-License-Identifier: Apache-2.0

// Package settings has what can be set of a VM: the keys and their values, and for a VM that runs,
// what holds now.
//
// # Who owns what
//
// Settings are a value. Readers of a VM's settings get a copy of a moment (Now), which nobody
// changes any more. Changes have one lock, under which Config.Changed is called: it must not change
// settings. Questions to the arbiter have a lock of their own, taken before that one, so that an
// arbiter that doesn't answer holds up only those who wait for it.
//
// # Who may lie
//
// The VM's owner, who gives a text, and the arbiter, with what it sets for the VM. Each value has
// bounds; an impossible one is refused and changes nothing.
//
// # Files
//
// settings.go (the keys), kinds.go (of values), scope.go (for whom and since when one holds),
// bounds.go (what follows from some), vm.go (those of a VM that runs), shares.go (those that an
// arbiter has a say in).
package settings

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/turns"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Settings are what a VM's owner can set with --set KEY=VALUE.
type Settings struct {
	Space  wire.Settings // what the guest is told
	Policy handover.Policy
	// WarmWorkers is how many workers are kept warm; warmDefault: what suits the GPU (WarmTarget).
	WarmWorkers int
	// IdleTime is for how long after its last program, or its driver's start, the VM keeps its
	// mover and its warm workers; 0: forever.
	IdleTime time.Duration
	// Starts is how many workers may be started in a second, in the long run; 0: as many as asked
	// for.
	Starts uint32
	// Memory is the device memory that the VM may have of each GPU; 0: all (MemoryBound).
	Memory uint64
	// HostMemory is what the VM's processes may take of the host's memory together; 0: half of it
	// (HostBound).
	HostMemory uint64
	// Guarantee is the device memory that no other VM may take from it.
	Guarantee uint64
	// Swap says that the VM takes turns with the GPU's memory, where there is an arbiter.
	Swap bool
	// Exclusive says that no other VM may have one of this one's GPUs, where there is an arbiter.
	Exclusive bool
	// Processes is how many guest processes may use the GPU at a time; 0: one for each channel.
	Processes uint32
	// StopGrace is how long work may go on when a queue is stopped.
	StopGrace time.Duration
	// SuspendMemory is how much of the host's memory moved-out device memory may take; 0: what
	// there is.
	SuspendMemory uint64
	// SuspendKeep is how much of that may be kept when the VM goes on, so that the next suspend
	// copies less.
	SuspendKeep uint64
	// Time is the VM's share of the GPU, where there is an arbiter.
	Time turns.Policy
}

const warmDefault = -1

// Default are the settings that hold unless something is set.
func Default() Settings {
	return Settings{
		Space: wire.Settings{
			Channels: 16, ArenaBytes: 8 << 20, BatchCommands: 512,
			BatchBytes: 256 << 10, SpinGuestUs: spinGuest(), SpinHostUs: spinHost(),
			InlineLimit: crossOver,
			Flags:       wire.ConfigFlagAddressMapping | wire.ConfigFlagGraphReplay,
		},
		Policy:      handover.Policy{StagingBytes: 32 << 20, SoftMemory: 2 << 30},
		WarmWorkers: warmDefault,
		IdleTime:    5 * time.Minute,
		Starts:      20,
		StopGrace:   5 * time.Second,
		Time:        turns.Policy{Weight: turns.DefaultWeight, Limit: turns.MaxLimit},
	}
}

// crossOver is the size from which pageable memory is copied by reference. On an H100 with a guest
// in User Mode Linux, where pinning costs most, 512 KiB were copied at 9 GB/s through the arena and
// at 8 GB/s by reference, 1 MiB at 10 and 11.5 GB/s. With kernels in between, copies by reference
// cost some 0.2 ms more, since the GPU switches between two processes; but copies through the arena
// keep the guest's processor busy all the time.
const crossOver = 1 << 20

// manyCores is the number of processors from which on polling takes none that others need.
const manyCores = 8

// How long to poll with many processors and with few, in µs.
const (
	spinHostMany  = 500
	spinGuestMany = 20000
	spinFew       = 50
)

// onManyCores tells a default that depends on the machine.
func onManyCores(many, few int) string {
	return fmt.Sprintf(" (default: %dus, with fewer than %d processors %dus)", many, manyCores, few)
}

// spinHost is how long a worker polls: long enough to stay awake between the calls of a program
// that computes a little between them.
func spinHost() uint32 {
	if runtime.NumCPU() >= manyCores {
		return spinHostMany
	}
	return spinFew
}

// spinGuest is how long a guest thread polls. CUDA's own threads poll without end if there are
// processors for it; beyond this time, the cost of waking up isn't worth a processor.
func spinGuest() uint32 {
	if runtime.NumCPU() >= manyCores {
		return spinGuestMany
	}
	return spinFew
}

// setting is one key.
type setting struct {
	key, value, help string
	reading
}

// reading reads and formats the value of a key.
type reading struct {
	set func(*Settings, string) error
	get func(*Settings) string
}

var keys = append([]setting{
	{"batch-commands", "N", "execute at most N commands at a time (1: delay nothing, the baseline)",
		number(1, 65536, func(s *Settings) *uint32 { return &s.Space.BatchCommands })},
	{"batch-bytes", "SIZE",
		"execute at most so many bytes of commands at a time; a larger command goes alone",
		size(64, wire.RingBytes/2, func(s *Settings) *uint32 { return &s.Space.BatchBytes })},
	{"batch-delay", "TIME",
		"how long launches wait for more of them while a program goes on launching (0: not at all)",
		duration(func(s *Settings) *uint32 { return &s.Space.BatchDelayUs })},
	{"spin-guest", "TIME", "how long a guest thread polls before it sleeps" +
		onManyCores(spinGuestMany, spinFew),
		duration(func(s *Settings) *uint32 { return &s.Space.SpinGuestUs })},
	{"spin-host", "TIME",
		"how long a worker polls before it sleeps" + onManyCores(spinHostMany, spinFew),
		duration(func(s *Settings) *uint32 { return &s.Space.SpinHostUs })},
	{"inline-limit", "SIZE",
		"copy up to this size through the arena, larger by reference; " +
			"a quarter of the arena's bulk area at most",
		size(0, 256<<20, func(s *Settings) *uint32 { return &s.Space.InlineLimit })},
	{"arena", "SIZE", "memory that a guest process shares with its worker",
		size(2<<20, 1<<30, func(s *Settings) *uint32 { return &s.Space.ArenaBytes })},
	{"channels", "N", "guest processes at a time",
		number(1, wire.MaxChannels, func(s *Settings) *uint32 { return &s.Space.Channels })},
	{"warm-workers", "N",
		"workers kept ready on each GPU for the programs to come, each with an idle CUDA " +
			"context (default: 1, on the software GPU 0)", reading{setWarm, getWarm}},
	{"idle-time", "TIME",
		"how long after its last program, or its driver's start, the VM keeps what it has of the " +
			"GPU: warm workers and the mover (never: it keeps them)",
		reading{setIdle, getIdle}},
	{"starts", "N",
		"how many programs may begin to use the GPU in a second, in the long run; " +
			"others wait (0: no bound)", number(0, 10000, func(s *Settings) *uint32 {
			return &s.Starts
		})},
	{"stop-grace", "TIME",
		"how long programs' work may go on when the VM stops or is reset; " +
			"a program whose work takes longer is ended", reading{setGrace, getGrace}},
	{"suspend-memory", "SIZE",
		"how much of the host's memory the device memory of the suspended VM may take (0: what " +
			"is available)",
		size64(0, math.MaxInt64, func(s *Settings) *uint64 { return &s.SuspendMemory })},
	{"suspend-keep", "SIZE",
		"how much of the host's memory copies of device memory may take while the VM runs, so " +
			"that the next suspend copies only what has changed (0: none are kept)",
		size64(0, math.MaxInt64, func(s *Settings) *uint64 { return &s.SuspendKeep })},
	{"address-mapping", "on|off", "pass payloads by reference",
		flag(wire.ConfigFlagAddressMapping)},
	{"graph-replay", "on|off", "replay repeated batches as CUDA graphs",
		flag(wire.ConfigFlagGraphReplay)},
	{"movable-code", "on|off",
		"put the variables of code where another process can have them, so that programs with " +
			"such code can be saved to a file", reading{setMovableCode, getMovableCode}},
	{"other-gpu", "on|off",
		"let programs that come from a file or another host go on with another GPU of the same " +
			"kind: they keep the UUID that they were told", reading{setOtherGPU, getOtherGPU}},
	{"staging", "SIZE", "device memory that a guest process's copies pass through",
		size64(1<<20, 1<<30, func(s *Settings) *uint64 { return &s.Policy.StagingBytes })},
	{"memory", "SIZE",
		"device memory that the VM may have on each GPU, with all its contexts (0: all)",
		size64(0, math.MaxInt64, func(s *Settings) *uint64 { return &s.Memory })},
	{"memory-guarantee", "SIZE", "device memory that VMs of memory-mode=swap leave to this one",
		size64(0, math.MaxInt64, func(s *Settings) *uint64 { return &s.Guarantee })},
	{"memory-mode", "off|swap",
		"swap: where there is an arbiter, the VM takes turns with the GPU's memory: between its " +
			"turns, its device memory is moved to the host's memory", reading{setMode, getMode}},
	{"exclusive", "on|off",
		"on: where there is an arbiter, no other VM may have one of this VM's GPUs",
		reading{setExclusive, getExclusive}},
	{"processes", "N",
		"guest processes at a time, changeable while the VM runs (0: one for each channel)",
		number(0, wire.MaxChannels, func(s *Settings) *uint32 { return &s.Processes })},
	{"host-memory", "SIZE",
		"how much of the host's memory a guest process may make its worker take: images, code, " +
			"handles, and kernels on the software GPU (0: 8G, on the software GPU 1G)",
		reading{setHostMemory, getHostMemory}},
	{"vm-host-memory", "SIZE",
		"the same for all guest processes of the VM together, changeable while the VM runs (0: " +
			"half of the host's memory)",
		size64(0, math.MaxInt64, func(s *Settings) *uint64 { return &s.HostMemory })},
	{"soft-memory", "SIZE", "device memory of the software GPU",
		size64(64<<20, 1<<40, func(s *Settings) *uint64 { return &s.Policy.SoftMemory })},
	{"soft-lost", "off|N", "let software GPU N fall off the bus, to try what programs do then",
		reading{setSoftLost, getSoftLost}},
	{"soft-peers", "on|off",
		"off: software GPUs don't reach one another's memory, to try what programs do then",
		reading{setSoftPeers, getSoftPeers}},
	{"allow-pageable-access", "on|off",
		"run on GPUs that reach pageable memory (HMM, ATS), although a guest's kernels then " +
			"reach the worker's own memory", reading{setPageable, getPageable}},
}, timeSettings()...)

// Bounds of StopGrace: even an idle worker takes a moment to answer, and the front end does nothing
// else while it waits.
const (
	minStopGrace = 100 * time.Millisecond
	maxStopGrace = time.Minute
)

// ErrSetting is returned for a setting that doesn't exist or a value that is impossible.
var ErrSetting = errors.New("bad policy")

// Set sets one "KEY=VALUE".
func (s *Settings) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%w %q: want KEY=VALUE", ErrSetting, text)
	}
	for _, x := range keys {
		if x.key == key {
			if err := x.set(s, value); err != nil {
				return fmt.Errorf("%w %s: %w", ErrSetting, text, err)
			}
			s.share()
			return nil
		}
	}
	return fmt.Errorf("%w %q: unknown key; paracuda device --help lists them", ErrSetting, key)
}

// share copies what workers need of the guest's settings.
func (s *Settings) share() {
	s.Policy.BatchCommands, s.Policy.BatchBytes = s.Space.BatchCommands, s.Space.BatchBytes
	s.Policy.InlineLimit, s.Policy.BatchDelayUs, s.Policy.SpinHostUs = s.Space.InlineLimit,
		s.Space.BatchDelayUs, s.Space.SpinHostUs
	s.Policy.Mapping = s.Space.Flags&wire.ConfigFlagAddressMapping != 0
	s.Policy.GraphReplay = s.Space.Flags&wire.ConfigFlagGraphReplay != 0
}

// Build returns what the guest is told, and the policies of workers.
func (s *Settings) Build() (wire.Settings, handover.Policy) {
	s.share()
	return s.Space, s.Policy
}

// Keys are the settings, as Settings.Set takes them, with their defaults.
func Keys() []turns.Setting {
	defaults := Default()
	list := make([]turns.Setting, len(keys))
	for i, x := range keys {
		list[i] = turns.Setting{Name: x.key, Value: x.value, Help: x.help}
		if !strings.Contains(x.help, "(default: ") {
			list[i].Help += " (default: " + x.get(&defaults) + ")"
		}
	}
	return list
}

func onOff(v string) (bool, error) {
	switch v {
	case "on":
		return true, nil
	case "off":
		return false, nil
	}
	return false, errors.New("want on or off")
}
