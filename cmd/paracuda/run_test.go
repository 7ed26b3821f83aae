// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestBadRuns asks for VMs that can't be made: none may boot.
func TestBadRuns(t *testing.T) {
	cpus := fmt.Sprintf(": want 1 to %d, as many as the host has", runtime.NumCPU())
	for line, want := range map[string]string{
		"--mem 100": "--mem 100: want 96M or more " +
			"(without a K, M, G or T behind it, SIZE is in bytes)",
		"--vm uml --mem 31M": "--mem 31M: want 32M or more " +
			"(without a K, M, G or T behind it, SIZE is in bytes)",
		"--mem 1X": "--mem: size \"1X\": " +
			"want a number, perhaps with K, M, G or T behind it",
		"--mem much": "--mem: size \"much\": " +
			"want a number, perhaps with K, M, G or T behind it",
		"--vm uml --kernel 6.1": "--kernel 6.1: want one of 7.2, 7.2-debug, 7.2-races, " +
			"7.2-threads with --vm uml",
		"--kernel 6.5":     "--kernel 6.5: want one of 6.1, 6.12 with --vm qemu",
		"--cpus -1":        "--cpus -1" + cpus,
		"--cpus 9999":      "--cpus 9999" + cpus,
		"--vm bochs":       "--vm bochs: want qemu or uml",
		"--log-level loud": "--log-level loud: want debug, info, warning or error",
	} {
		if err := dispatch(append(append([]string{"run", "--gpu", "soft"}, strings.Fields(line)...),
			"--", "true")); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
