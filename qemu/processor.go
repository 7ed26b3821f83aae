// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
)

// ErrNoVirtualization says that KVM, if there is one at all, isn't by the processor's means. Such
// a KVM (kvm_pvm, inside some virtual machines) runs kernels made for it, in software all else:
// there a usual kernel stops early in its boot, without a word, and uses a processor for good.
var ErrNoVirtualization = errors.New("the processor offers neither VMX nor SVM")

// mostProcessorText bounds how much is read of what tells of processors.
const mostProcessorText = 1 << 16

// CheckProcessor looks in the text of /proc/cpuinfo whether a processor offers virtualization, as
// the kernel does before it takes kvm_intel or kvm_amd. Where the first processor's flags aren't
// told, that isn't known, and no error.
func CheckProcessor(cpuinfo io.Reader) error {
	lines := bufio.NewScanner(io.LimitReader(cpuinfo, mostProcessorText))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(name) != "flags" {
			continue
		}
		flags := strings.Fields(value)
		if len(flags) == 0 || slices.Contains(flags, "vmx") || slices.Contains(flags, "svm") {
			return nil
		}
		return ErrNoVirtualization
	}
	return nil
}
