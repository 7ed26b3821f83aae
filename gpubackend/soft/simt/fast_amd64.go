// SPDX-License-Identifier: Apache-2.0

package simt

import "golang.org/x/sys/cpu"

func init() {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return
	}
	fastExecs = make(map[string]execFunc, len(goExecs))
	for key, exec := range goExecs {
		fastExecs[key] = exec
	}
	for key, exec := range avxExecs {
		fastExecs[key] = exec
	}
}
