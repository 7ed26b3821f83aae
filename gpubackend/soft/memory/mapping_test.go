// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
)

// TestMemoryFilesAreBounded: memory is a file whether it is created or imported.
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
	if d.files != 0 || d.Space().Heap(0).Used() != 0 {
		t.Errorf("%d files, %d bytes stay counted", d.files, d.Space().Heap(0).Used())
	}
}

// TestFilesEndWithTheDevice: a program that ends without releasing memory leaves no file.
func TestFilesEndWithTheDevice(t *testing.T) {
	d := newRig(t, 0, 4)
	m, result := d.CreateMemory(gpubackend.Granularity, 0, 0)
	ok(t, result)
	fd, result := d.ExportMemory(m)
	ok(t, result)
	defer unix.Close(fd)
	_, result = d.ImportMemory(fd, gpubackend.Granularity, 0)
	ok(t, result)
	var files []int
	for _, object := range d.options.Handles.All() {
		if p, ok := object.(*physical); ok {
			files = append(files, p.file)
		}
	}
	d.Close()
	if len(files) != 2 || d.files != 0 {
		t.Errorf("%d files, %d stay counted", len(files), d.files)
	}
	for _, file := range files {
		if _, err := unix.FcntlInt(uintptr(file), unix.F_GETFD, 0); err == nil {
			t.Errorf("descriptor %d stays open", file)
		}
	}
}
