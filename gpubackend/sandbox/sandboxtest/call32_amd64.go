// SPDX-License-Identifier: Apache-2.0

package sandboxtest

// Call32 makes a system call without arguments as a 32-bit program does: the kernel takes the
// number for one of that list of calls. A kernel that has no such calls sends SIGSEGV instead.
func Call32(number uint32) int32
