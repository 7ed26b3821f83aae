// SPDX-License-Identifier: Apache-2.0

package hostfuncs_test

import (
	"os"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/cuda/hostfuncs"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// soon waits until is returns true, a minute at most.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// descriptors are what this process's descriptors lead to.
func descriptors(t *testing.T) (list []string) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil {
			list = append(list, to)
		}
	}
	return list
}

// TestCloseLeavesNothing: no end of the pipe stays open. A function that is due after Close doesn't
// wait, and doesn't write to a file that has the pipe's number by then.
func TestCloseLeavesNothing(t *testing.T) {
	d := drivertest.Open(t)
	before := descriptors(t)
	v, err := hostfuncs.New()
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan uint64, 2)
	call := func(token uint64, release func()) { called <- token; release() }
	r := v.Kept(d.LaunchHostFunc(), 2, false, 7, call)
	if r != gpubackend.Success || <-called != 7 {
		t.Fatalf("put it into a stream: %d", r)
	}
	if n := len(descriptors(t)); n != len(before)+2 {
		t.Errorf("%d descriptors, and %d before", n, len(before))
	}
	v.Close()
	v.Close()
	if after := descriptors(t); len(after) != len(before) {
		t.Errorf("left open: %q, and %q before", after, before)
	}
	other := make([]*os.File, 4) // they get the numbers of the pipe
	for i := range other {
		if other[i], err = os.CreateTemp(t.TempDir(), "other"); err != nil {
			t.Fatal(err)
		}
		defer other[i].Close()
	}
	if r := v.Kept(d.LaunchHostFunc(), 2, false, 7, call); r != gpubackend.Success {
		t.Fatalf("put it into a stream: %d", r)
	}
	soon(t, "the stream waits", func() bool { return d.StreamQuery(2) == gpubackend.Success })
	for _, f := range other {
		if info, err := f.Stat(); err != nil || info.Size() != 0 {
			t.Errorf("%v was written to, or %v", info, err)
		}
	}
	if len(called) != 0 {
		t.Error("the function was called")
	}
}

// TestOnceHoldsItsStream until release is called, or Close releases all.
func TestOnceHoldsItsStream(t *testing.T) {
	for _, end := range []string{"released", "closed"} {
		t.Run(end, func(t *testing.T) {
			d := drivertest.Open(t)
			v, err := hostfuncs.New()
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			called := make(chan uint64, 1)
			release, r := v.Once(d.LaunchHostFunc(), 0, 2, 7,
				func(token uint64) { called <- token })
			if r != gpubackend.Success {
				t.Fatalf("put it into a stream: %d", r)
			}
			if token := <-called; token != 7 {
				t.Errorf("function %d was called", token)
			}
			if r := d.StreamQuery(2); r != gpubackend.NotReady {
				t.Errorf("the stream doesn't wait: %d", r)
			}
			if end == "released" {
				release()
				release()
			} else {
				v.Close()
			}
			soon(t, "the stream still waits",
				func() bool { return d.StreamQuery(2) == gpubackend.Success })
		})
	}
}
