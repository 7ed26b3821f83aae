// SPDX-License-Identifier: Apache-2.0

// Package nvml is the binding of NVML, NVIDIA's library for the management of GPUs, which is opened
// at run time. Only this package calls it.
//
// # Who owns what
//
// A Library stays loaded until the process ends, with the memory that it keeps for answers. One
// goroutine uses a Library and its GPUs.
//
// # Who may lie
//
// The library is believed. It may hang with its GPU, or crash, so that it belongs in a process of
// its own.
//
// Files: nvml.go (the functions, and their errors), library_cgo.go (finds the functions, and the
// GPUs), gpu_cgo.go, link_cgo.go and fabric_cgo.go (asks about a GPU, its links and its fabric).
// Package nvmltest has a library for tests.
package nvml

import "fmt"

// DefaultLibrary is the name under which NVML is installed.
const DefaultLibrary = "libnvidia-ml.so.1"

// Questions are what the library is asked about: it may lack the functions for the others.
type Questions uint8

const (
	Links     Questions = 1 << iota // how GPUs are joined, and how much of their memory is free
	Processes                       // which processes use a GPU
)

// function is one that is called.
type function uint8

const (
	initialise function = iota
	byUUID
	linkState
	linkVersion
	linkCapability
	linkRemote
	linkRemoteType
	fieldValues
	memoryInfo
	p2pStatus
	fabricInfo
	count
	byIndex
	uuidOf
	runningProcesses
	functions // their number
)

var table = [functions]struct {
	symbol string
	about  Questions // that it answers
	newer  bool      // older libraries lack it
}{
	initialise:       {symbol: "nvmlInit_v2", about: Links | Processes},
	byUUID:           {symbol: "nvmlDeviceGetHandleByUUID", about: Links},
	linkState:        {symbol: "nvmlDeviceGetNvLinkState", about: Links},
	linkVersion:      {symbol: "nvmlDeviceGetNvLinkVersion", about: Links},
	linkCapability:   {symbol: "nvmlDeviceGetNvLinkCapability", about: Links},
	linkRemote:       {symbol: "nvmlDeviceGetNvLinkRemotePciInfo_v2", about: Links},
	linkRemoteType:   {symbol: "nvmlDeviceGetNvLinkRemoteDeviceType", about: Links},
	fieldValues:      {symbol: "nvmlDeviceGetFieldValues", about: Links},
	memoryInfo:       {symbol: "nvmlDeviceGetMemoryInfo", about: Links},
	p2pStatus:        {symbol: "nvmlDeviceGetP2PStatus", about: Links},
	fabricInfo:       {symbol: "nvmlDeviceGetGpuFabricInfoV", about: Links, newer: true},
	count:            {symbol: "nvmlDeviceGetCount_v2", about: Processes},
	byIndex:          {symbol: "nvmlDeviceGetHandleByIndex_v2", about: Processes},
	uuidOf:           {symbol: "nvmlDeviceGetUUID", about: Processes},
	runningProcesses: {symbol: "nvmlDeviceGetComputeRunningProcesses_v3", about: Processes},
}

// NVML's numbers of errors. This package gives functionNotFound for what wasn't looked up, too.
const (
	functionNotFound = 13
	versionMismatch  = 25
)

// failed makes an error of what a function has returned; 0: none.
func (f function) failed(result int) error {
	if result == 0 {
		return nil
	}
	return fmt.Errorf("%s: error %d", table[f].symbol, result)
}

// Process is one that computes on a GPU.
type Process struct {
	PID  int
	Used uint64 // of the GPU's memory; math.MaxUint64: the driver doesn't know
}
