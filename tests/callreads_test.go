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

// callReads counts what passes through QEMU's main loop: how often QEMU itself has read the
// descriptor by which a back end interrupts the guest, for each queue.
type callReads struct{ file, program string }

// countCallReads makes a program that is a QEMU in which these reads are counted, of the back end
// that has a socket of this name.
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

// of returns the numbers of reads.
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

// channels is how many of them are of channels: all but those of the control queue.
func (c *callReads) channels(t *testing.T) (n int) {
	t.Helper()
	for queue, reads := range c.of(t) {
		if queue != fmt.Sprint(wire.ControlQueue) {
			n += reads
		}
	}
	return n
}
