// SPDX-License-Identifier: Apache-2.0

// Package usage tells how much device memory of the software GPU the host's processes have, as a
// real GPU's driver does. It asks the kernel: device memory is files in memory, and what these take
// is counted, whatever a process says. A process could keep data elsewhere, where it is host memory
// like any other. The processes asked about may end meanwhile, and may be hostile: a process with
// very many descriptors costs time, not more.
package usage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
)

// kinds are the kinds of device memory: windows, memory without an address, staging.
var kinds = []string{"device", "memory", "staging"}

// Bytes is the memory of each GPU, by its number among the VM's.
type Bytes = [ledger.GPUs]uint64

// usage is what processes have of a VM's GPUs.
type usage struct {
	gpus []uint64      // their ids
	of   map[int]Bytes // by the processes' ids
}

// GPUs implements ledger.Usage.
func (u *usage) GPUs() []uint64 { return u.gpus }

// Used implements ledger.Usage.
func (u *usage) Used(id uint64, pid int) (uint64, bool) {
	gpu := slices.Index(u.gpus, id)
	bytes, ok := u.of[pid]
	if gpu < 0 || !ok {
		return 0, false
	}
	return bytes[gpu], true
}

// Ask asks the kernel about processes of a VM with so many GPUs. Processes that have ended are left
// out.
func Ask(gpus int, pids []int) (ledger.Usage, error) {
	of := map[int]Bytes{}
	for _, pid := range pids {
		bytes, err := Of(pid)
		if errors.Is(err, os.ErrPermission) {
			return nil, err
		}
		if err == nil {
			of[pid] = bytes
		}
	}
	return Known(gpus, of), nil
}

// Known is the answer to what was asked before about processes of a VM with so many GPUs, by
// process id.
func Known(gpus int, of map[int]Bytes) ledger.Usage {
	u := &usage{make([]uint64, min(gpus, ledger.GPUs)), of}
	for gpu := range u.gpus {
		u.gpus[gpu] = ledger.ID(chip.NumberedUUID(gpu))
	}
	return u
}

// Of asks the kernel about one process.
func Of(pid int) (bytes Bytes, err error) {
	if bytes, err = of(fmt.Sprintf("/proc/%d/fd", pid)); err != nil {
		return bytes, fmt.Errorf("read the files of process %d: %w", pid, err)
	}
	return bytes, nil
}

// of adds up the files of device memory among those in a folder of links, each once.
func of(folder string) (sum Bytes, err error) {
	list, err := os.ReadDir(folder)
	if err != nil {
		return sum, err
	}
	counted := map[uint64]bool{}
	for _, file := range list {
		path := filepath.Join(folder, file.Name())
		name, err := os.Readlink(path)
		if err != nil {
			continue
		}
		gpu, ok := gpuOf(name)
		if !ok {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil && !counted[st.Ino] {
			counted[st.Ino] = true
			sum[gpu] += uint64(st.Blocks) * 512
		}
	}
	return sum, nil
}

// gpuOf is the number of the GPU whose memory a file is, by the target of a link to it. A process
// that names its files otherwise has host memory.
func gpuOf(link string) (gpu int, ok bool) {
	for _, kind := range kinds {
		number, found := strings.CutPrefix(link, "/memfd:paracuda-"+kind+"-")
		if !found {
			continue
		}
		number, _, _ = strings.Cut(number, " ") // (deleted)
		n, err := strconv.ParseUint(number, 10, 8)
		return int(n), err == nil && n < ledger.GPUs
	}
	return 0, false
}
