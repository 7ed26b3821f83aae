// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/pcie"
)

// processors is the affinity of the calling thread.
func processors(t *testing.T) (set unix.CPUSet) {
	t.Helper()
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	return set
}

// some is the first or the last of a thread's processors.
func some(set unix.CPUSet, last bool) (n int) {
	for i := range 1024 {
		if set.IsSet(i) {
			if n = i; !last {
				return n
			}
		}
	}
	return n
}

// plug makes a folder in which GPUs have near processors, as sysfs lists them.
func plug(t *testing.T, lists map[pcie.Address]string) string {
	t.Helper()
	folder := t.TempDir()
	for at, list := range lists {
		device := filepath.Join(folder, at.String())
		if err := os.Mkdir(device, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(device, "local_cpulist"), []byte(list+"\n"),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// onThread runs f on a thread of its own, which ends with it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}

func TestStayNear(t *testing.T) {
	all := processors(t)
	first, last := some(all, false), some(all, true)
	if first == last {
		t.Skip("one processor: each is near")
	}
	a, b := pcie.Address{Bus: 1}, pcie.Address{Bus: 2}
	type lists map[pcie.Address]string
	const others = 1023 // no host of a test has as many
	begin, end := fmt.Sprint(first), fmt.Sprint(last)
	for name, tt := range map[string]struct {
		gpus  []pcie.Address
		lists lists
		want  []int // nil: no change
	}{
		"the last":   {[]pcie.Address{a}, lists{a: end}, []int{last}},
		"the first":  {[]pcie.Address{b}, lists{a: end, b: begin}, []int{first}},
		"two nodes":  {[]pcie.Address{a, b}, lists{a: end, b: begin}, []int{first, last}},
		"one node":   {[]pcie.Address{a}, lists{a: fmt.Sprintf("0-%d", others-1)}, nil},
		"not his":    {[]pcie.Address{a}, lists{a: fmt.Sprint(others)}, nil},
		"partly his": {[]pcie.Address{a}, lists{a: end + fmt.Sprint(",", others)}, []int{last}},
		"unknown":    {[]pcie.Address{a}, nil, nil},
		"one is":     {[]pcie.Address{a, b}, lists{a: end}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			folder := plug(t, tt.lists)
			onThread(func() {
				want := processors(t)
				if tt.want != nil {
					want.Zero()
				}
				for _, i := range tt.want {
					want.Set(i)
				}
				if err := stayNear(folder, tt.gpus); err != nil {
					t.Error(err)
				}
				if is := processors(t); is != want {
					t.Errorf("runs on %v, want %v", is, want)
				}
			})
		})
	}
}

// TestEngineStaysNear: the thread that makes the engine, which is the loop's, stays near the GPU.
func TestEngineStaysNear(t *testing.T) {
	all := processors(t)
	last := some(all, true)
	folder := plug(t, map[pcie.Address]string{
		{Domain: 1, Bus: 1, Device: 1}: fmt.Sprint(last), // where the fake's GPU is
	})
	library := drivertest.Build(t)
	onThread(func() {
		e, err := newCUDAEngine(&Config{Library: library, PCI: folder,
			Registered: DefaultRegistered, Log: logrus.NewEntry(logrus.New())},
			&handover.Policy{}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer e.close()
		if set := processors(t); set.Count() != 1 || !set.IsSet(last) {
			t.Errorf("the engine runs on %v, want processor %d alone", set, last)
		}
	})
}
