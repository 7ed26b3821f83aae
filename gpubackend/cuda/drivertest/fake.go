// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/internal/leaks"
)

// Library is the path of the library, once Main has built it.
var Library string

// Main builds the library and runs the tests. It is for TestMain.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fakecuda")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if Library, err = build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return leaks.Main(Collected{m})
}

// Collected are tests after which what nobody refers to is closed. A pipe of host functions stays
// referred to for as long as the driver may write to it.
type Collected struct{ leaks.Tests }

// Run runs them.
func (c Collected) Run() int {
	code := c.Tests.Run()
	for range 2 { // the first one may only find the files that the second one closes
		runtime.GC()
	}
	return code
}

// Build builds a library of the test's own, for other processes, or with options for gcc.
func Build(tb testing.TB, options ...string) (library string) {
	tb.Helper()
	library, err := build(tb.TempDir(), options...)
	if err != nil {
		tb.Fatal(err)
	}
	return library
}

//go:embed testdata
var sources embed.FS

func build(dir string, options ...string) (library string, err error) {
	library = filepath.Join(dir, "libcuda.so.1")
	if err := os.CopyFS(dir, sources); err != nil {
		return "", fmt.Errorf("build the fake driver library: %w", err)
	}
	headers, err := include()
	if err != nil {
		return "", fmt.Errorf("build the fake driver library: %w", err)
	}
	source := filepath.Join(dir, "testdata/fakecuda.c")
	gcc := exec.Command("gcc", append(options, "-shared", "-fPIC", "-O1", "-I"+headers,
		"-o", library, source, "-lpthread")...)
	if out, err := gcc.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the fake driver library: %w\n%s", err, out)
	}
	return library, nil
}

// include is the folder of the header with CUDA's structures and numbers, which is above the folder
// that a test runs in.
func include() (string, error) {
	folder, err := os.Getwd()
	for ; err == nil && folder != "/"; folder = filepath.Dir(folder) {
		if headers := filepath.Join(folder, "guestdriver/include"); exists(headers) {
			return headers, nil
		}
	}
	return "", cmp.Or(err, errors.New("no guestdriver/include above the folder of the test"))
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Open loads the library and makes a context current. The test's goroutine stays on its thread.
func Open(tb testing.TB) *driver.Driver {
	tb.Helper()
	runtime.LockOSThread()
	d, err := driver.Open(Library)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		Restore()
		d.Close()
		runtime.UnlockOSThread()
	})
	r := d.Init()
	var c gpubackend.Context
	if r == gpubackend.Success {
		c, r = d.DevicePrimaryCtxRetain(0)
	}
	if r == gpubackend.Success {
		r = d.CtxSetCurrent(c)
	}
	if r != gpubackend.Success {
		tb.Fatalf("make a context: %d", r)
	}
	return d
}

// Restore ends the error and the waiting that the library was told of, and gives variables their
// initial content.
func Restore() {
	call(Library, "fake_reload")
	call(Library, "fake_sticky", 0)
	call(Library, "fake_not_ready", 0)
}

// Tell calls a function that only the fake has, if the library is loaded.
func Tell(name string, arguments ...uint64) { call(Library, name, arguments...) }

// TellOf does so for a library of Build's.
func TellOf(library, name string, arguments ...uint64) { call(library, name, arguments...) }

// Count is how often a function of the library was called.
func Count(name string) uint64 { return CountOf(Library, name) }

// CountOf is the same for a library of Build's.
func CountOf(library, name string) uint64 {
	text, n := cmem.Copied([]byte(name), 1), cmem.Allocate(8)
	defer text.Free()
	defer n.Free()
	call(library, "fake_count", text.Address(), n.Address())
	return n.Words()[0]
}

// Image is the text that was loaded last.
func Image() string {
	b := cmem.Allocate(4096)
	defer b.Free()
	call(Library, "fake_image", b.Address(), 4095)
	text, _, _ := bytes.Cut(b.Bytes(), []byte{0})
	return string(text)
}

// Options are the options of the load before, as pairs of number and value.
func Options() (words []uint64) {
	b, n := cmem.Allocate(16*8), cmem.Allocate(8)
	defer b.Free()
	defer n.Free()
	call(Library, "fake_options", b.Address(), n.Address())
	for i := range 2 * n.Words()[0] {
		words = append(words, binary.LittleEndian.Uint64(b.Bytes()[8*i:]))
	}
	return words
}
