// SPDX-License-Identifier: Apache-2.0

package pcie

import (
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Near adds the processors that are nearest to the device in a folder like [Devices] to those in
// near: those of its NUMA node, or all if the host has only one. It says whether the kernel tells
// which.
func Near(folder string, a Address, near *unix.CPUSet) bool {
	list := text(filepath.Join(folder, a.String()), "local_cpulist")
	if list == "" {
		return false
	}
	var set unix.CPUSet
	for part := range strings.SplitSeq(list, ",") {
		first, last, ok := span(part)
		if !ok {
			return false
		}
		for i := first; i <= last; i++ {
			set.Set(i)
		}
	}
	for i := range near {
		near[i] |= set[i]
	}
	return true
}

// maxProcessors is how many a CPUSet has room for.
const maxProcessors = len(unix.CPUSet{}) * strconv.IntSize

// span reads one number, or two with a dash between them.
func span(text string) (first, last int, ok bool) {
	from, to, two := strings.Cut(text, "-")
	if !two {
		to = from
	}
	a, err1 := strconv.ParseUint(from, 10, 16)
	b, err2 := strconv.ParseUint(to, 10, 16)
	ok = err1 == nil && err2 == nil && a <= b && b < uint64(maxProcessors)
	return int(a), int(b), ok
}
