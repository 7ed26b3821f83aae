// SPDX-License-Identifier: Apache-2.0

// Package drivertest is a driver's library for tests, written in C (testdata/fakecuda.c): it
// executes what it is given at once, and can be told to be slow, to refuse and to fail. Memory that
// is registered is pinned, as the real one does it: pages that are mapped there later aren't
// reached. It is built with gcc, once for each test program.
//
// The library has one state for a process, as the real one does: tests that use it don't run in
// parallel, and Open puts back what a test has changed.
package drivertest
