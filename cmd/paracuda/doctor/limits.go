// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/fix"
)

// What a VM with 16 programs should have at least. The first is what Linux has by default: each run
// of pinned pages takes a mapping of a worker's.
const (
	leastMappings  = 65530
	leastFiles     = 4096
	leastProcesses = 1024
)

// Where the limits are.
const (
	mappingsFile = "/proc/sys/vm/max_map_count"
	pidsFile     = "/proc/sys/kernel/pid_max"
	cgroupFile   = "/proc/self/cgroup"
	cgroups      = "/sys/fs/cgroup"
)

// number reads a file with one.
func (h *Host) number(path string) (uint64, error) {
	return strconv.ParseUint(h.word(h.path(path)), 10, 64)
}

func (h *Host) mappings(context.Context) Finding {
	n, err := h.number(mappingsFile)
	switch {
	case err != nil:
		return warn("vm.max_map_count isn't known: "+err.Error(), "sysctl vm.max_map_count")
	case n < leastMappings:
		return warn(fmt.Sprintf("vm.max_map_count is %d: programs can pin little memory", n),
			fix.Mappings)
	}
	return good(fmt.Sprintf("vm.max_map_count is %d", n))
}

// limit is a limit as text; 0 isn't known.
func limit(n uint64) string {
	if n == math.MaxUint64 {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

// checkLimit checks one of this process's limits. Services have their own.
func (h *Host) checkLimit(what string, resource int, least uint64, fix string) Finding {
	n, err := h.Limit(resource)
	switch {
	case err != nil:
		return warn(fmt.Sprintf("%s: not known: %v", what, err), fix)
	case n < least:
		return warn(fmt.Sprintf("%s: %s for this user, less than %d", what, limit(n), least), fix)
	}
	return good(fmt.Sprintf("%s: %s for this user", what, limit(n)))
}

func (h *Host) descriptors(context.Context) Finding {
	return h.checkLimit("open files", unix.RLIMIT_NOFILE, leastFiles, "ulimit -Hn 524288")
}

// processesLimit checks all that bounds how many processes and threads there can be.
func (h *Host) processesLimit(context.Context) Finding {
	if n, err := h.number(pidsFile); err == nil && n < 2*leastProcesses {
		return warn(fmt.Sprintf("kernel.pid_max is %d", n), "sysctl -w kernel.pid_max=4194304")
	}
	if n, group := h.groupPids(); n < leastProcesses {
		return warn(fmt.Sprintf("the control group %s has room for %d processes", group, n),
			fmt.Sprintf("echo max >%s/pids.max", filepath.Join(cgroups, group)))
	}
	return h.checkLimit("processes", unix.RLIMIT_NPROC, leastProcesses, "ulimit -u 65536")
}

// groupPids says how many more processes this one's control group may have, and names the group.
func (h *Host) groupPids() (room uint64, group string) {
	for line := range strings.Lines(h.text(h.path(cgroupFile))) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			group = rest
		}
	}
	dir := filepath.Join(cgroups, group)
	most, err := h.number(filepath.Join(dir, "pids.max"))
	if err != nil { // it is "max", or isn't there
		return math.MaxUint64, group
	}
	now, err := h.number(filepath.Join(dir, "pids.current"))
	if err != nil || now > most {
		now = most
	}
	return most - now, group
}
