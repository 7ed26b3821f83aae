// SPDX-License-Identifier: Apache-2.0

// Package usage tells what device memory of the software GPU the host's processes have, as a GPU's
// driver does of its own. It asks the kernel: device memory is files in memory, and what these take
// is counted, whatever a process says. A process could have its memory elsewhere, where it is host
// memory like any other. The processes asked about may end meanwhile, and may be hostile: a process
// with very many descriptors costs time, not more.
package usage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
)

// names begin the links to files of device memory: windows, memory without an address, staging.
var names = []string{"/memfd:paracuda-device", "/memfd:paracuda-memory", "/memfd:paracuda-staging"}

// gpu is the software GPU that processes have unless they ask for another.
var gpu = ledger.ID(chip.DefaultUUID)

// usage is what processes have, by their ids.
type usage map[int]uint64

// GPUs implements ledger.Usage.
func (u usage) GPUs() []uint64 { return []uint64{gpu} }

// Used implements ledger.Usage.
func (u usage) Used(id uint64, pid int) (uint64, bool) {
	bytes, ok := u[pid]
	return bytes, ok && id == gpu
}

// Ask asks the kernel about processes. One that isn't there any more is left out.
func Ask(pids []int) (ledger.Usage, error) {
	u := usage{}
	for _, pid := range pids {
		bytes, err := Of(pid)
		if errors.Is(err, os.ErrPermission) {
			return nil, err
		}
		if err == nil {
			u[pid] = bytes
		}
	}
	return u, nil
}

// Known is what somebody has asked the kernel already: bytes by the processes' ids.
func Known(bytes map[int]uint64) ledger.Usage { return usage(bytes) }

// Of asks the kernel about one process.
func Of(pid int) (bytes uint64, err error) {
	if bytes, err = of(fmt.Sprintf("/proc/%d/fd", pid)); err != nil {
		return 0, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return bytes, nil
}

// of adds up the files of device memory among those in a folder of links, each once.
func of(folder string) (sum uint64, err error) {
	list, err := os.ReadDir(folder)
	if err != nil {
		return 0, err
	}
	counted := map[uint64]bool{}
	for _, file := range list {
		path := filepath.Join(folder, file.Name())
		name, err := os.Readlink(path)
		if err != nil || !deviceMemory(name) {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil && !counted[st.Ino] {
			counted[st.Ino] = true
			sum += uint64(st.Blocks) * 512
		}
	}
	return sum, nil
}

func deviceMemory(name string) bool {
	for _, begins := range names {
		if strings.HasPrefix(name, begins) {
			return true
		}
	}
	return false
}
