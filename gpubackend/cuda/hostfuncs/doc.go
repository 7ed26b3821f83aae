// SPDX-License-Identifier: Apache-2.0

// Package hostfuncs calls Go functions when a stream gets to them. The driver calls a function of C
// on a thread of its own: that writes a number to a pipe and then holds the stream. A goroutine
// reads the numbers and calls the functions. So no Go code runs on a thread of the driver, and a
// function may take as long as a guest's does: its stream waits until release is called.
//
//	calls_cgo.go  functions that are called once (wait.h, wait.c)
//	nodes_cgo.go  functions of graphs, called as often as the graph runs (node.h, node.c)
//	pipe.h        the pipe (pipe.c)
//
// Calls are made by the goroutine that calls the driver; any goroutine may release what is due.
package hostfuncs
