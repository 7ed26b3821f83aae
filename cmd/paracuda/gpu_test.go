// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
)

// TestSelf: after an upgrade a process starts its children from its own program all the same.
func TestSelf(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "paracuda")
	if err := os.WriteFile(other, []byte("another version"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		own: own, other: thisProgram, other + ".gone": thisProgram,
	} {
		if got := selfAt(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestNameOfTheVM: it is what is given, or that of the configuration or the socket.
func TestNameOfTheVM(t *testing.T) {
	for _, tt := range []struct {
		o    deviceOptions
		want string
	}{
		{deviceOptions{name: "a", config: "/etc/b.conf", socket: "/run/c.sock"}, "a"},
		{deviceOptions{config: "/etc/b.conf", socket: "/run/c.sock"}, "b"},
		{deviceOptions{socket: "/run/c d.sock"}, "c-d"},
	} {
		if got, err := tt.o.vmName(); err != nil || got != tt.want {
			t.Errorf("%+v: %s, %v, want %s", tt.o, got, err, tt.want)
		}
	}
}

// TestNamesOfSharedGPUs: each of the host's GPUs is shared by itself, by a name that doesn't depend
// on how the VM's operator named it.
func TestNamesOfSharedGPUs(t *testing.T) {
	o := deviceOptions{gpu: "cuda:1,0", chosen: chosen{gpus: []hostgpus.GPU{
		{Name: "A", UUID: "GPU-1", Memory: 2 << 30}, {Name: "A", UUID: "GPU-0", Memory: 1 << 30},
	}}}
	want := []link.GPU{{Name: "GPU-1", Memory: 2 << 30}, {Name: "GPU-0", Memory: 1 << 30}}
	if got := o.shared(gpuCUDA); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	o = deviceOptions{settings: settings.Default()}
	o.settings.Policy.SoftMemory = 3 << 30
	want = []link.GPU{{Name: "soft", Memory: 3 << 30}}
	if got := o.shared(gpuSoft); !slices.Equal(got, want) {
		t.Errorf("software: %v", got)
	}
	o.settings.Policy.SoftGPUs = 2
	want = append(want, link.GPU{Name: "soft-1", Memory: 3 << 30})
	if got := o.shared(gpuSoft); !slices.Equal(got, want) {
		t.Errorf("two of software: %v", got)
	}
	if gpus, err := takeGPUs(gpuAuto, gpuSoft, 1<<30, nil); gpus != nil || err != nil {
		t.Errorf("the software GPU is one of the host's: %v, %v", gpus, err)
	}
}
