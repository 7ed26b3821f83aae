// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
)

// List names the host's GPUs, each with its memory, or says why the driver can't be used. It
// initialises the driver.
func List() ([]string, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	return list(DefaultLibrary)
}

func list(library string) ([]string, error) {
	d, err := driver.Open(library)
	if err != nil {
		return nil, fmt.Errorf("no CUDA driver: %w", err)
	}
	// It stays loaded: a driver that has been initialised has threads of its own.
	if err := d.Init().Err(); err != nil {
		return nil, fmt.Errorf("cuInit: %w", err)
	}
	n, r := d.DeviceGetCount()
	if r == gpubackend.Success && n == 0 {
		r = gpubackend.NoDevice
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("count the GPUs: %w", err)
	}
	names := make([]string, n)
	for i := range names {
		if names[i], err = nameOf(d, i); err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	return names, nil
}

func nameOf(d *driver.Driver, i int) (string, error) {
	device, r := d.DeviceGet(i)
	var name [256]byte
	if r == gpubackend.Success {
		r = d.DeviceGetName(name[:len(name)-1], device)
	}
	var memory uint64
	if r == gpubackend.Success {
		memory, r = d.DeviceTotalMem(device)
	}
	return Name(name[:], memory), r.Err()
}

// Name is what people call a GPU: its name, which may end with a NUL, and its memory.
func Name(name []byte, memory uint64) string {
	text, _, _ := bytes.Cut(name, []byte{0})
	return fmt.Sprintf("%s, %d MiB", text, memory>>20)
}
