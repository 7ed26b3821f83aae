// SPDX-License-Identifier: Apache-2.0

package chip

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
)

// TestVisibleDevices: of three GPUs, those that the variable names, in its order.
func TestVisibleDevices(t *testing.T) {
	uuids := [][16]byte{DefaultUUID, NumberedUUID(1), NumberedUUID(2)}
	for _, c := range []struct {
		name, value string
		want        []int
	}{
		{"number", "0", []int{0}}, {"list", "2,0", []int{2, 0}}, {"none", "", nil},
		{"unknown", "3", nil}, {"ends at unknown", "1,3,0", []int{1}}, {"negative", "-1", nil},
		{"prefix of several", "GPU-5061", nil}, {"twice", "1,1", nil},
		{"whole", hostgpus.UUID(NumberedUUID(2)), []int{2}}, {"other", "GPU-6061", nil},
		{"no digits", "GPU-", nil},
	} {
		env := []string{"PATH=x", "CUDA_VISIBLE_DEVICES=" + c.value}
		if got := Visible(env, uuids); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if got := Visible([]string{"HOME=/"}, uuids); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("not set: %v", got)
	}
	one := []string{"CUDA_VISIBLE_DEVICES=GPU-5061"}
	if got := Visible(one, uuids[:1]); !slices.Equal(got, []int{0}) {
		t.Errorf("the prefix of one: %v", got)
	}
}

func TestInventory(t *testing.T) {
	id := Identity{UUID: DefaultUUID, Bus: 1, Memory: 1 << 30, Multiprocessors: 3}
	other := Identity{UUID: NumberedUUID(1), Bus: 2, Memory: 2 << 30, Multiprocessors: 3}
	s := Inventory(1<<40, 1<<36, []Identity{id, other}, false)
	if s.Devices != 2 || len(s.Device) != 2 || s.WindowBase != 1<<40 || s.WindowBytes != 1<<36 {
		t.Fatalf("inventory %+v", s.Inventory)
	}
	a, b := hostgpus.Described(&s.Device[0]), hostgpus.Described(&s.Device[1])
	if a.UUID == b.UUID || a.Place == b.Place || b.Memory != 2<<30 {
		t.Errorf("%v at %v and %v at %v", &a, a.Place, &b, b.Place)
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
		k := &decoded.Kernel{Registers: c.registers, MaxThreads: [3]int{c.threads, 1, 1}}
		if got := Blocks(k, c.threads, c.shared); got != c.blocks {
			t.Errorf("%+v: %d blocks", c, got)
		}
	}
	if got := Blocks(&decoded.Kernel{Registers: 255}, 1025, 0); got != 0 {
		t.Errorf("%d blocks that are too large", got)
	}
}
