// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
)

// ErrNoVirtualization says that the processor has no virtualization for KVM to use. A KVM that is
// there all the same (kvm_pvm, inside some virtual machines) is for special kernels: a usual kernel
// stops early in its boot, silently, and keeps a processor busy.
var ErrNoVirtualization = errors.New("the processor offers neither VMX nor SVM")

// mostProcessorText bounds how much of cpuinfo is read.
const mostProcessorText = 1 << 16

// CheckProcessor reads in the text of /proc/cpuinfo whether the processor offers virtualization,
// which the kernel checks before it loads kvm_intel or kvm_amd. If the text has no flags, it
// returns no error.
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
