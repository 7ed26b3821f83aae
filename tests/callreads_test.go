// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// callReads counts the interrupts that pass through QEMU's main loop: how often QEMU itself has
// read the descriptor by which a back end interrupts the guest, for each queue.
type callReads struct{ file, program string }

// countCallReads makes a program that runs a QEMU and counts these reads, for the back end whose
// socket has this name.
func countCallReads(t *testing.T, qemu, socket string) *callReads {
	t.Helper()
	library := build(t, "tests/preload/callreads.c", "-shared", "-fPIC", "-ldl")
	c := &callReads{filepath.Join(t.TempDir(), "reads"), filepath.Join(t.TempDir(), "qemu")}
	script := fmt.Sprintf("#!/bin/sh\nexport CALL_READS='%s' CALL_SOCKET='%s'\n"+
		"LD_PRELOAD='%s' exec '%s' \"$@\"\n", c.file, socket, library, qemu)
	if err := os.WriteFile(c.program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

// of returns the number of reads for each queue.
func (c *callReads) of(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(c.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	reads := map[string]int{}
	for _, queue := range strings.Fields(string(text)) {
		reads[queue]++
	}
	return reads
}

// channels is the number of reads for all channels: all queues but the control queue.
func (c *callReads) channels(t *testing.T) (n int) {
	t.Helper()
	for queue, reads := range c.of(t) {
		if queue != fmt.Sprint(wire.ControlQueue) {
			n += reads
		}
	}
	return n
}
