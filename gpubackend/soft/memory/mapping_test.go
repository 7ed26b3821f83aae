// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
)

// TestMemoryFilesAreBounded: each is a file, of which a process may have so many only.
func TestMemoryFilesAreBounded(t *testing.T) {
	const most = 3
	d := newRig(t, 0, most)
	var files []gpubackend.Memory
	for range most - 1 {
		m, result := d.CreateMemory(gpubackend.Granularity, 0, 0)
		ok(t, result)
		files = append(files, m)
	}
	fd, result := d.ExportMemory(files[0])
	ok(t, result)
	defer unix.Close(fd)
	imported, result := d.ImportMemory(fd, gpubackend.Granularity, 0)
	ok(t, result)
	for range 2 {
		_, result = d.CreateMemory(gpubackend.Granularity, 0, 0)
		want(t, result, gpubackend.OutOfMemory)
		_, result = d.ImportMemory(fd, gpubackend.Granularity, 0)
		want(t, result, gpubackend.OutOfMemory)
	}
	ok(t, d.ReleaseMemory(imported))
	last, result := d.CreateMemory(gpubackend.Granularity, 0, 0)
	ok(t, result)
	for _, m := range append(files, last) {
		ok(t, d.ReleaseMemory(m))
	}
	if d.files != 0 || d.Space().Heap.Used() != 0 {
		t.Errorf("%d files, %d bytes stay counted", d.files, d.Space().Heap.Used())
	}
}
