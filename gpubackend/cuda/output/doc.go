// SPDX-License-Identifier: Apache-2.0

// Package output is what kernels print. The driver writes it to this process's output when it is
// synchronized with, which costs 2 us each time; most programs never print. So code is looked into
// (find.go): only if it may print does anybody synchronize. The output goes to files in memory
// (capture.go), from which it is taken (output.go).
//
// Images come from a guest: unpacking them is bounded (package budget), and code that can't be read
// is taken to print.
package output
