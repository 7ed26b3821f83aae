// SPDX-License-Identifier: Apache-2.0

// Package process is what a process of paracuda does to itself: which program it is, what it gives
// up (files, system calls, cores), and that it outlives its terminal. All but Self and
// CanShareMemory changes the whole process, for good.
package process
