// SPDX-License-Identifier: Apache-2.0

package chip

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
)

func TestVisibleDevices(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"number", "0", true}, {"list", "0,1", true}, {"none", "", false}, {"unknown", "1", false},
		{"ends at unknown", "1,0", false}, {"negative", "-1", false}, {"prefix", "GPU-5061", true},
		{"whole", hostgpus.UUID(DefaultUUID), true}, {"other", "GPU-6061", false},
		{"no digits", "GPU-", false},
	} {
		if got := Visible([]string{"PATH=x", "CUDA_VISIBLE_DEVICES=" + c.value},
			DefaultUUID); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if !Visible([]string{"HOME=/"}, DefaultUUID) {
		t.Error("not set: invisible")
	}
}

func TestSnapshot(t *testing.T) {
	id := &Identity{UUID: DefaultUUID, Memory: 1 << 30, Base: 1 << 40, Window: 1 << 36,
		Multiprocessors: 3}
	s := id.Snapshot()
	if s.Devices != 1 || len(s.Device) != 1 || s.WindowBase != id.Base ||
		s.WindowBytes != id.Window {
		t.Fatalf("snapshot %+v", s.Snapshot)
	}
	dev := &s.Device[0]
	if dev.TotalMemory != id.Memory ||
		dev.Attribute[cudaabi.DeviceAttributeMultiprocessorCount] != 3 {
		t.Errorf("%d bytes, %d multiprocessors", dev.TotalMemory,
			dev.Attribute[cudaabi.DeviceAttributeMultiprocessorCount])
	}
}

// TestRegistersForWarps compares with the most registers by trial.
func TestRegistersForWarps(t *testing.T) {
	for warps := 1; warps <= 64; warps++ {
		most := 0
		for registers := 1; registers <= maxRegisters; registers++ {
			if warpsByRegisters(registers) >= warps {
				most = registers
			}
		}
		if got := registersForWarps(warps); got != most {
			t.Errorf("%d warps: %d registers each, by trial %d", warps, got, most)
		}
	}
}

// TestOccupancy compares with NVIDIA's occupancy calculator for compute capability 9.0.
func TestOccupancy(t *testing.T) {
	for _, c := range []struct {
		registers, threads int
		shared             uint64
		blocks             int
	}{
		{16, 1024, 0, 2}, {32, 256, 0, 8}, {33, 256, 0, 6}, {64, 256, 0, 4}, {128, 512, 0, 1},
		{16, 32, 0, 32},
		{16, 128, 48 << 10, 4}, {16, 128, 227 << 10, 1}, {16, 64, 7 << 10, 28},
	} {
		k := &simt.Kernel{Registers: c.registers, MaxThreads: [3]int{c.threads, 1, 1}}
		if got := Blocks(k, c.threads, c.shared); got != c.blocks {
			t.Errorf("%+v: %d blocks", c, got)
		}
	}
	if got := Blocks(&simt.Kernel{Registers: 255}, 1025, 0); got != 0 {
		t.Errorf("%d blocks that are too large", got)
	}
}
