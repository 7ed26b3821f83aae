// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/arbiter/arbitertest"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
)

// serveArbiter serves an arbiter, and returns its socket's path.
func serveArbiter(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "arbiter")
	t.Cleanup(arbitertest.Serve(t, path))
	return path
}

// TestArbiterChooses: where --gpu names no GPUs the arbiter chooses them. Without an arbiter the
// free memory decides. The VM's next device process has the same GPUs, whatever is free by then.
func TestArbiterChooses(t *testing.T) {
	path := serveArbiter(t)
	host := []hostgpus.GPU{
		{Name: "A", UUID: "GPU-a0", Memory: 80 << 30, Free: 80 << 30},
		{Name: "A", UUID: "GPU-a1", Memory: 80 << 30, Free: 79 << 30},
	}
	for _, tt := range []struct{ name, gpu, arbiter, want string }{
		{"one", "auto:1,memory=60G", path, "cuda:GPU-a0"},
		{"two", "auto:1,memory=60G", path, "cuda:GPU-a1"},
		{"three", "auto:1,memory=60G", noArbiter, "cuda:GPU-a0"},
		{"four", "cuda:1", path, "cuda:GPU-a1"},
		{"both", "auto:2,memory=15G", path, "cuda:GPU-a0,GPU-a1"},
	} {
		o := deviceOptions{gpu: tt.gpu, arbiter: tt.arbiter, name: tt.name,
			settings: settings.Default()}
		choice, err := hostgpus.Parse(tt.gpu)
		if err != nil {
			t.Fatal(err)
		}
		gpus, err := o.among(choice, slices.Clone(host), nil)
		t.Cleanup(o.chosen.released)
		if err != nil || hostgpus.Named(gpus) != tt.want {
			t.Errorf("%s: %v, %v; want %s", tt.name, gpus, err, tt.want)
		}
		if _, room := choice.Automatic(); o.chosen.room != room {
			t.Errorf("%s: %d is noted, want %d", tt.name, o.chosen.room, room)
		}
	}
	o := deviceOptions{gpu: "auto:1,memory=70G", arbiter: path, name: "five",
		settings: settings.Default()}
	choice, _ := hostgpus.Parse(o.gpu)
	if gpus, err := o.among(choice, host, nil); !errors.Is(err, client.ErrRefused) {
		t.Errorf("more than is left: %v, %v", gpus, err)
	}
	for fact, want := range map[string]bool{
		notedGPUs + "cuda:GPU-a1": true, notedRoom + "60G": true, "weight=3": false,
	} {
		if is := o.sameGPUs(fact); is != want {
			t.Errorf("%s: %t", fact, is)
		}
	}
	if o.gpu != "cuda:GPU-a1" || o.chosen.room != 60<<30 {
		t.Errorf("after another process: %s with %d", o.gpu, o.chosen.room)
	}
}
