// SPDX-License-Identifier: Apache-2.0

// Package output collects what kernels print. The driver writes it to this process's output when
// somebody synchronizes, which costs 2 us each time; most programs never print. So code is searched
// (find.go), and only if it may print does anybody synchronize. The output goes to files in memory
// (capture.go), from which it is taken (output.go).
//
// Images come from a guest: unpacking them is bounded (package budget), and code that can't be read
// is taken to print.
package output
