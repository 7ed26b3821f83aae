// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	sizes "github.com/paracuda/paracuda/gpubackend/size"
)

// MemoryBound is what the VM may have of each GPU; 0 is all. The software GPU is the VM's own, and
// has exactly that.
func (s *Settings) MemoryBound(gpu string) uint64 {
	if gpu == "soft" && (s.Memory == 0 || s.Memory > s.Policy.SoftMemory) {
		return s.Policy.SoftMemory
	}
	return s.Memory
}

// hostTotal is the host's memory, as it was when it was first asked for; 0 if the kernel doesn't
// say.
var hostTotal = sync.OnceValue(func() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return info.Totalram * uint64(info.Unit)
})

// HostBound is what the VM's processes may take of the host's memory together: half of it, unless
// the owner says otherwise, and not less than one guest process may.
func (s *Settings) HostBound(gpu string) uint64 {
	bound := s.HostMemory
	if bound == 0 {
		bound = hostTotal() / 2
	}
	return max(bound, s.Policy.HostBytes(gpu))
}

// HostEnd is what the VM's processes may have of the host's memory before one is ended, with their
// garbage, and besides what each has for itself: twice HostBound, but not more than three quarters
// of the host's memory unless the owner wants that.
func (s *Settings) HostEnd(gpu string) uint64 {
	bound := s.HostBound(gpu)
	return max(bound, min(2*min(bound, 1<<62), hostTotal()/4*3))
}

// Check refuses settings that contradict one another on a GPU: a guarantee of more than the VM may
// have.
func (s *Settings) Check(gpu string) error {
	bound := s.MemoryBound(gpu)
	if bound == 0 || s.Guarantee <= bound {
		return nil
	}
	return fmt.Errorf("memory-guarantee=%s is more than the VM may have: set memory=%[1]s or more",
		sizes.Format(s.Guarantee))
}

// Workers that are kept warm unless the owner says otherwise. Each costs several hundred MiB of
// device memory (526 MiB on an H100); a new one is ready before its program has done much. The
// software GPU starts at once.
const (
	warmCUDA = 1
	warmSoft = 0
)

// WarmTarget is how many workers are kept warm while there is a driver and the VM isn't idle.
func (s *Settings) WarmTarget(gpu string) int {
	n := s.WarmWorkers
	switch {
	case n == warmDefault && gpu == "cuda":
		n = warmCUDA
	case n == warmDefault:
		n = warmSoft
	}
	return min(n, int(s.Space.Channels))
}
