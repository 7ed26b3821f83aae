// SPDX-License-Identifier: Apache-2.0

package decoded

// Windows of the generic address space: the upper byte of an address says which
// one it is in. User addresses of the CPU have an upper byte of 0.
const (
	WindowShift = 56
	// SharedWindow is where a block's shared memory begins.
	SharedWindow uint64 = 1 << WindowShift
	// LocalWindow is where a thread's local memory begins.
	LocalWindow uint64 = 2 << WindowShift
	// ParamWindow is where a kernel's parameters begin.
	ParamWindow uint64 = 3 << WindowShift
	// FunctionWindow is where the addresses of device functions begin.
	FunctionWindow uint64 = 4 << WindowShift
	// ReferenceWindow is where the numbers of texture and surface references begin.
	ReferenceWindow uint64 = 5 << WindowShift
)
