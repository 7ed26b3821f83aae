// SPDX-License-Identifier: Apache-2.0

// Package processes asks NVIDIA's driver how much memory of each GPU each process of the host has,
// over NVML (package nvml), which is opened at run time. The driver is believed; it may hang with
// its GPU, or crash, so that this belongs in a process of its own.
package processes

import (
	"fmt"
	"math"

	"github.com/paracuda/paracuda/gpubackend/cuda/nvml"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// notAvailable is the driver's answer if it doesn't know.
const notAvailable = math.MaxUint64

// GPU is what processes have of one GPU.
type GPU struct {
	ID   uint64         `json:"id"` // in a ledger
	Used map[int]uint64 `json:"used"`
}

// Usage is what processes have of all GPUs. It implements ledger.Usage.
type Usage []GPU

// GPUs implements ledger.Usage.
func (u Usage) GPUs() []uint64 {
	ids := make([]uint64, len(u))
	for i := range u {
		ids[i] = u[i].ID
	}
	return ids
}

// Used implements ledger.Usage.
func (u Usage) Used(id uint64, pid int) (uint64, bool) {
	for i := range u {
		if u[i].ID == id {
			bytes, ok := u[i].Used[pid]
			return bytes, ok
		}
	}
	return 0, false
}

// Library is what is asked. One goroutine uses it.
type Library struct{ nvml *nvml.Library }

// Open loads NVML and initialises it. It stays loaded.
func Open(path string) (*Library, error) {
	l, err := nvml.Open(path, nvml.Processes)
	if err != nil {
		return nil, err
	}
	return &Library{l}, nil
}

// Read asks about all GPUs.
func (l *Library) Read() (Usage, error) {
	n, err := l.nvml.Count()
	if err != nil {
		return nil, err
	}
	u := make(Usage, 0, n)
	for i := range min(n, ledger.GPUs) {
		one, err := l.read(i)
		if err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
		u = append(u, one)
	}
	return u, nil
}

// read asks about a GPU.
func (l *Library) read(i int) (one GPU, err error) {
	gpu, err := l.nvml.At(i)
	if err != nil {
		return GPU{}, err
	}
	text, err := gpu.UUID()
	if err != nil {
		return GPU{}, err
	}
	list, err := gpu.Processes()
	if err != nil {
		return GPU{}, err
	}
	one.Used = make(map[int]uint64)
	for _, p := range list {
		if p.Used != notAvailable {
			one.Used[p.PID] += p.Used
		}
	}
	uuid, err := hostgpus.ParseUUID(text)
	if err == nil {
		one.ID = ledger.ID(uuid)
	}
	return one, err
}
