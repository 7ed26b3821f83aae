// SPDX-License-Identifier: Apache-2.0

package hello

import (
	"math"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// device is two GPUs, which open once.
type device struct {
	suits  bool
	fails  gpubackend.Result
	opened []string // the variables that it was opened with
	times  int
	// share is what the VM may have of the memory of each.
	share, memory uint64
}

func (d *device) Suits([]string) bool { return d.suits }
func (d *device) Open(variables []string) (*gpubackend.Inventory, gpubackend.Result) {
	if d.fails != gpubackend.Success {
		return nil, d.fails
	}
	d.opened = variables
	d.times++
	s := &gpubackend.Inventory{Device: make([]wire.InventoryDevice, 2),
		Pair: make([]wire.InventoryPair, 1)}
	s.Device[0].Uuid, s.Device[1].Uuid = [16]byte{11}, [16]byte{12}
	for i := range s.Device {
		s.Device[i].TotalMemory = d.share
		s.Memory = append(s.Memory, d.memory)
	}
	return s, gpubackend.Success
}

// inventoryBytes is how long the inventory of such a device is.
const inventoryBytes = wire.InventorySize + 2*wire.InventoryDeviceSize + wire.InventoryPairSize

// room is enough for an inventory of two GPUs.
const room = 8 << 10

// rig is a Hello and the bulk area that its commands name: the environment first, the inventory at
// 64.
type rig struct {
	*Hello
	device *device
	bulk   [64 + room]byte
	first  bool
	told   int
	words  []uint64 // of the last answer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{device: &device{suits: true}, first: true}
	r.Hello = New(Config{Driver: r.device, Accounts: ledger.NewProcess(),
		First: func() bool { return r.first }, Opened: func() { r.told++ }})
	return r
}

// run executes a command.
func (r *rig) run(op uint16, words ...uint64) gpubackend.Result {
	c := call.New(&call.Buffers{
		Bulk:   func(offset, n uint64) ([]byte, error) { return r.bulk[offset : offset+n], nil },
		Copied: func(uint64) {},
	})
	command := &arena.Command{N: len(words)}
	copy(command.Words[:], words)
	c.Start(command)
	result := r.Handlers()[gpubackend.Op(op)].Run(&c)
	r.words = slices.Clone(c.Answers())
	return result
}

// hello says HELLO, with room for an inventory of so many bytes.
func (r *rig) hello(environment string, room uint64) gpubackend.Result {
	const bulk = wire.BufferBulk << 56
	copy(r.bulk[:], environment)
	return r.run(wire.OpHello, bulk, uint64(len(environment)), bulk|64, room)
}

// TestHello: the device is opened with the guest process's variables, once, and the guest process
// has the inventory.
func TestHello(t *testing.T) {
	r := newRig(t)
	if result := r.hello("CUDA_A=1\x00\x00CUDA_B=\x00", room); result != gpubackend.Success {
		t.Fatalf("HELLO: %v", result)
	}
	if !slices.Equal(r.device.opened, []string{"CUDA_A=1", "CUDA_B="}) || !r.IsOpen() ||
		r.told != 1 || !slices.Equal(r.GPUs(), []uint64{11, 12}) {
		t.Errorf("opened with %q, open %v, told %d times, GPUs %v", r.device.opened, r.IsOpen(),
			r.told, r.GPUs())
	}
	if len(r.words) != 1 || r.words[0] != inventoryBytes {
		t.Errorf("answer %v", r.words)
	}
	var s wire.Inventory
	s.Decode(r.bulk[64:])
	environment, inventory := r.Told()
	if s.Devices != 2 || string(inventory) != string(r.bulk[64:64+inventoryBytes]) ||
		len(environment) != 2 { // the VM may have all memory
		t.Errorf("%d devices, told %d bytes, environment %q", s.Devices, len(inventory),
			environment)
	}
	if result := r.hello("", room); result != gpubackend.NotPermitted || r.device.times != 1 {
		t.Errorf("a second HELLO: %v, opened %d times", result, r.device.times)
	}
}

// TestInventorySuits: another GPU doesn't, the same one with another link or fabric does. If others
// of the same kind are to do, only what tells of the kind counts.
func TestInventorySuits(t *testing.T) {
	r := newRig(t)
	if result := r.hello("", room); result != gpubackend.Success {
		t.Fatalf("HELLO: %v", result)
	}
	_, told := r.Told()
	attribute := func(a int) int { return wire.InventoryDeviceAttributeOffset + 4*a }
	for name, tt := range map[string]struct {
		offset     int
		want, kind bool
	}{
		"name":           {wire.InventoryDeviceNameOffset, false, false},
		"UUID":           {wire.InventoryDeviceUuidOffset, false, true},
		"LUID":           {wire.InventoryDeviceLuidMaskOffset - 1, false, true},
		"memory":         {wire.InventoryDeviceTotalMemoryOffset, false, false},
		"bus":            {attribute(cudaabi.DeviceAttributePCIBusID), false, true},
		"architecture":   {attribute(cudaabi.DeviceAttributeComputeCapabilityMajor), false, false},
		"link's speed":   {wire.InventoryDeviceLinkGenerationOffset, true, true},
		"link's width":   {wire.InventoryDeviceLinkWidthOffset, true, true},
		"most width":     {wire.InventoryDeviceLinkMaxWidthOffset, false, false},
		"NVLinks":        {wire.InventoryDeviceNvlinksOffset, false, false},
		"NVLink's end":   {wire.InventoryDeviceNvlinkPlaceOffset, false, true},
		"NVLinks' speed": {wire.InventoryDeviceNvlinkCommonSpeedOffset, false, false},
		"cluster":        {wire.InventoryDeviceFabricClusterOffset, true, true},
		"fabric's end":   {wire.InventoryDeviceSize - 1, true, true},
	} {
		other := slices.Clone(told)
		other[wire.InventorySize+wire.InventoryDeviceSize+tt.offset]++
		if got := r.Suits(other); got != tt.want {
			t.Errorf("another %s suits: %v", name, got)
		}
		r.OtherGPU = true
		if got := r.Suits(other); got != tt.kind {
			t.Errorf("another %s suits, of the same kind: %v", name, got)
		}
		r.OtherGPU = false
	}
	if !r.Suits(told) || r.Suits(nil) {
		t.Error("the same doesn't suit, or nothing does")
	}
}

// TestShareSuits: what the VM may have of the GPUs' memory may change, but not what they have. The
// guest process is told only its share.
func TestShareSuits(t *testing.T) {
	first := newRig(t)
	first.device.share, first.device.memory = 5<<20, 7<<20
	if result := first.hello("", room); result != gpubackend.Success {
		t.Fatalf("HELLO: %v", result)
	}
	var told wire.InventoryDevice
	told.Decode(first.bulk[64+wire.InventorySize:])
	if told.TotalMemory != 5<<20 {
		t.Errorf("the guest process is told of %d bytes", told.TotalMemory)
	}
	_, inventory := first.Told()
	for _, tt := range []struct {
		share, memory uint64
		want          bool
	}{{5 << 20, 7 << 20, true}, {6 << 20, 7 << 20, true}, {1 << 20, 7 << 20, true},
		{5 << 20, 6 << 20, false}, {5 << 20, 8 << 20, false}} {
		for _, other := range []bool{false, true} {
			r := newRig(t)
			r.device.share, r.device.memory, r.OtherGPU = tt.share, tt.memory, other
			if result := r.Reopen(nil); result != gpubackend.Success {
				t.Fatalf("reopen: %v", result)
			}
			if got := r.Suits(inventory); got != tt.want {
				t.Errorf("%d of %d bytes, other GPUs %v: suits %v", tt.share, tt.memory, other, got)
			}
		}
	}
}

// TestHelloThatFails leaves the device closed, for the next one.
func TestHelloThatFails(t *testing.T) {
	r := newRig(t)
	r.device.fails = gpubackend.NoDevice
	if result := r.hello("", room); result != gpubackend.NoDevice || r.IsOpen() {
		t.Errorf("no device: %v, open %v", result, r.IsOpen())
	}
	r.device.fails = gpubackend.Success
	if result := r.hello("", inventoryBytes-1); result != gpubackend.InvalidValue || r.IsOpen() ||
		r.told != 0 {
		t.Errorf("no room for the inventory: %v, open %v", result, r.IsOpen())
	}
	if result := r.hello("", inventoryBytes); result != gpubackend.Success || r.told != 1 ||
		len(r.GPUs()) != 2 {
		t.Errorf("then: %v, %d GPUs", result, len(r.GPUs()))
	}
}

// TestCold: a process that the driver doesn't suit is left to another worker, if it has said only
// HELLO.
func TestCold(t *testing.T) {
	for _, first := range []bool{true, false} {
		r := newRig(t)
		r.device.suits, r.first = false, first
		want := gpubackend.NotPermitted
		if first {
			want = call.Pending
		}
		if got := r.hello("", room); got != want || r.Cold() != first || r.IsOpen() {
			t.Errorf("first %v: %v, cold %v, open %v", first, got, r.Cold(), r.IsOpen())
		}
	}
}

// TestReopen: a worker that goes on for another opens the device, and nobody is told.
func TestReopen(t *testing.T) {
	r := newRig(t)
	r.device.fails = gpubackend.NoDevice
	if result := r.Reopen(nil); result != gpubackend.NoDevice || r.IsOpen() {
		t.Errorf("no device: %v, open %v", result, r.IsOpen())
	}
	r.device.fails = gpubackend.Success
	if result := r.Reopen([]string{"X=1"}); result != gpubackend.Success || !r.IsOpen() ||
		r.told != 0 {
		t.Errorf("%v, open %v, told %d times", result, r.IsOpen(), r.told)
	}
	if environment, inventory := r.Told(); len(environment) != 1 ||
		len(inventory) != inventoryBytes {
		t.Errorf("told %q, %d bytes", environment, len(inventory))
	}
}

func TestUsage(t *testing.T) {
	r := newRig(t)
	if got := r.run(wire.OpUsage, 0, 0); got != gpubackend.InvalidDevice {
		t.Errorf("before HELLO: %v", got)
	}
	r.Reopen(nil)
	if got := r.run(wire.OpUsage, 0, 0); got != gpubackend.NotSupported {
		t.Errorf("without a ledger: %v", got)
	}
	page, err := ledger.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(page.Close)
	ledger.NewAudit(page, 0).Begin(5, 50)
	r.Accounts.Join(page, 5)
	r.Accounts.Account(12).Force(ledger.Contexts, 100)
	page.SetBusy(25)
	for _, test := range []struct {
		device, from uint64
		want         [4]uint64 // busy, next, pid, bytes
	}{
		{0, 0, [4]uint64{26}},
		{1, 0, [4]uint64{26, 6, 50, 100}},
		{1, 6, [4]uint64{26}},
		{1, math.MaxUint64, [4]uint64{26}},
	} {
		if got := r.run(wire.OpUsage, test.device, test.from); got != gpubackend.Success {
			t.Errorf("%+v: %v", test, got)
		}
		if got := [4]uint64(r.words[:4]); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
	if got := r.run(wire.OpUsage, 2, 0); got != gpubackend.InvalidDevice {
		t.Errorf("a GPU that there isn't: %v", got)
	}
}
