// SPDX-License-Identifier: Apache-2.0

// Package hello opens the device for a guest process, and tells it of the GPUs: once all about them
// (HELLO), and then, whenever it asks, how much they are used.
//
// # Who owns what
//
// The worker's loop owns a Hello. It executes no command but HELLO before Opened says so.
//
// # Who may lie
//
// The guest, about its environment: only variables that the driver may read are taken over. It is
// told only what its VM has.
package hello

import (
	"bytes"
	"strings"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// Driver is what a Hello uses of gpubackend.Driver.
type Driver interface {
	Suits(variables []string) bool
	Open(variables []string) (*gpubackend.Inventory, gpubackend.Result)
}

// Config is what a Hello needs.
type Config struct {
	Driver Driver
	// Accounts are those of the guest process, in the ledger of its VM if that has one.
	Accounts *ledger.Process
	// First says whether the current command is the first that the guest process has sent.
	First func() bool
	// OtherGPU lets a process that said HELLO to another worker go on with other GPUs of the same
	// kind. It has been told which GPUs it had, and keeps that.
	OtherGPU bool
	// Opened is told when the guest process has its answer.
	Opened func()
}

// Hello is what the guest process and the worker have told each other about themselves.
type Hello struct {
	Config
	opened, cold bool
	environment  []string
	answer       []byte   // the inventory as the guest process gets it
	gpus         []uint64 // ids, by ordinal
	// whole is the inventory with all memory of the GPUs, of which the VM may have less.
	whole []byte
}

// New returns a Hello whose device isn't open.
func New(c Config) *Hello { return &Hello{Config: c} }

// Handlers are the commands that a Hello executes.
func (h *Hello) Handlers() call.Handlers {
	return call.Handlers{
		gpubackend.Op(wire.OpHello): call.Bare(call.Decoded(command.DecodeHello, h.hello)),
		gpubackend.Op(wire.OpUsage): call.Decoded(command.DecodeUsage, h.usage),
	}
}

// IsOpen says whether the device is open.
func (h *Hello) IsOpen() bool { return h.opened }

// Cold says whether the guest process is left to another worker, since this one's driver was
// initialised with another environment.
func (h *Hello) Cold() bool { return h.cold }

// GPUs are the ids of the GPUs, by ordinal.
func (h *Hello) GPUs() []uint64 { return h.gpus }

// Told is what the guest process said, and an inventory for Suits.
func (h *Hello) Told() (environment []string, inventory []byte) {
	return h.environment, h.whole
}

// hello opens the device with the guest process's CUDA environment and answers with the device
// inventory.
func (h *Hello) hello(c *call.Call, a command.Hello) gpubackend.Result {
	if h.opened {
		return gpubackend.NotPermitted
	}
	env, result := c.InputOf(a.Environment)
	if result != gpubackend.Success {
		return result
	}
	variables := strings.FieldsFunc(string(env), func(r rune) bool { return r == 0 })
	if !h.Driver.Suits(variables) {
		return h.askCold()
	}
	out, result := c.OutputOf(a.Inventory)
	if result != gpubackend.Success {
		return result
	}
	defer out.Done()
	if result = h.open(variables); result != gpubackend.Success {
		return result
	}
	size := len(h.answer)
	if size > len(out.Bytes) {
		return gpubackend.InvalidValue
	}
	copy(out.Bytes, h.answer)
	h.opened = true
	h.Opened()
	c.Put(command.HelloAnswer{Bytes: uint64(size)})
	return gpubackend.Success
}

// askCold leaves the guest process to another worker, which is only possible while HELLO is all
// that it said.
func (h *Hello) askCold() gpubackend.Result {
	if !h.First() {
		return gpubackend.NotPermitted
	}
	h.cold = true
	return call.Pending
}

// Suits says whether the device has the GPUs of an inventory that another worker's Told returned.
// Their links to the host may be in another state by now, as they save power, and so may the
// fabric. What the VM may have of their memory may be something else: its programs must find room
// in that. With OtherGPU only their kinds must be the same.
func (h *Hello) Suits(inventory []byte) bool {
	return bytes.Equal(lasting(h.whole, h.OtherGPU), lasting(inventory, h.OtherGPU))
}

// places are attributes that say which GPU it is, and where it is plugged in.
var places = [...]int{
	cudaabi.DeviceAttributePCIBusID, cudaabi.DeviceAttributePCIDeviceID,
	cudaabi.DeviceAttributePCIDomainID, cudaabi.DeviceAttributeMultiGPUBoardGroupID,
	cudaabi.DeviceAttributeNUMAID, cudaabi.DeviceAttributeHostNUMAID,
}

// lasting is an inventory without the present speed of the GPUs' links, and their fabric; with
// kinds also without what tells GPUs of one kind apart.
func lasting(inventory []byte, kinds bool) []byte {
	b := bytes.Clone(inventory)
	if len(b) < wire.InventorySize {
		return b
	}
	var s wire.Inventory
	s.Decode(b)
	for i := range min(int(s.Devices), (len(b)-wire.InventorySize)/wire.InventoryDeviceSize) {
		at := wire.InventorySize + i*wire.InventoryDeviceSize
		clear(b[at+wire.InventoryDeviceLinkGenerationOffset:][:4])
		clear(b[at+wire.InventoryDeviceLinkWidthOffset:][:4])
		clear(b[at+wire.InventoryDeviceFabricClusterOffset : at+wire.InventoryDeviceSize])
		if !kinds {
			continue
		}
		clear(b[at+wire.InventoryDeviceUuidOffset : at+wire.InventoryDeviceLuidMaskOffset])
		clear(b[at+wire.InventoryDeviceNvlinkPlaceOffset:][:wire.InventoryDeviceNvlinkNamedOffset-
			wire.InventoryDeviceNvlinkPlaceOffset])
		for _, a := range places {
			clear(b[at+wire.InventoryDeviceAttributeOffset+4*a:][:4])
		}
	}
	return b
}

// Reopen opens the device for a process that said HELLO to another worker. Told has its variables.
func (h *Hello) Reopen(variables []string) gpubackend.Result {
	result := h.open(variables)
	h.opened = result == gpubackend.Success
	return result
}

// open opens the device for a process with these variables.
func (h *Hello) open(variables []string) gpubackend.Result {
	s, result := h.Driver.Open(variables)
	if result != gpubackend.Success {
		return result
	}
	answer := encoded(s)
	h.gpus = nil
	for i := range s.Device {
		h.gpus = append(h.gpus, ledger.ID(s.Device[i].Uuid))
	}
	if page := h.Accounts.Page(); page != nil && len(s.Device) == 1 {
		page.SetTotal(s.Device[0].TotalMemory)
	}
	for i, bytes := range s.Memory {
		s.Device[i].TotalMemory = bytes
	}
	h.environment, h.answer, h.whole = variables, answer, encoded(s)
	return gpubackend.Success
}

// encoded is an inventory in the form of the answer to HELLO.
func encoded(s *gpubackend.Inventory) []byte {
	devices := wire.InventorySize + len(s.Device)*wire.InventoryDeviceSize
	b := make([]byte, devices+len(s.Pair)*wire.InventoryPairSize)
	s.Devices = uint32(len(s.Device))
	s.Encode(b)
	for i := range s.Device {
		s.Device[i].Encode(b[wire.InventorySize+i*wire.InventoryDeviceSize:])
	}
	for i := range s.Pair {
		s.Pair[i].Encode(b[devices+i*wire.InventoryPairSize:])
	}
	return b
}

// usage tells how busy a GPU is, and the next process that has memory of it, from the VM's ledger,
// as the operator sees it.
func (h *Hello) usage(c *call.Call, a command.Usage) gpubackend.Result {
	page := h.Accounts.Page()
	switch {
	case a.Device >= uint64(len(h.gpus)):
		return gpubackend.InvalidDevice
	case page == nil:
		return gpubackend.NotSupported
	}
	var answer command.UsageAnswer
	if percent, known := page.Busy(); known {
		answer.Busy = 1 + uint64(percent)
	}
	holder, who, ok := page.Holder(h.gpus[a.Device], int(min(a.From, ledger.Workers)))
	if ok {
		answer.Next, answer.Pid, answer.Bytes = uint64(holder)+1, uint64(who.PID), who.Sum()
	}
	c.Put(answer)
	return gpubackend.Success
}
