// SPDX-License-Identifier: Apache-2.0

package nvlinks

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/pcie"
)

func TestAdd(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	out, err := exec.Command("cc", "-shared", "-fPIC", "-o", fake,
		"testdata/fakenvml.c").CombinedOutput()
	if err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	gpus := []hostgpus.GPU{
		{UUID: "GPU-00000000-0000-0000-0000-000000000000"},
		{UUID: "GPU-01020304-0506-0708-090a-0b0c0d0e0f10"},
	}
	if err := Add(fake, gpus); err != nil {
		t.Fatal(err)
	}
	want := []hostgpus.NVLink{
		{Version: 6, Capabilities: 5, Speed: 26562, Remote: hostgpus.RemoteSwitch,
			At: pcie.Address{Bus: 0xa0}},
		{},
		{Version: 6, Capabilities: 5, Speed: 26564, Remote: hostgpus.RemoteGPU,
			At: pcie.Address{Bus: 0xa2}},
		{Version: 6, Capabilities: 5, Speed: 26565, Remote: hostgpus.RemoteUnknown},
	}
	if !slices.Equal(gpus[1].NVLinks, want) {
		t.Errorf("links %+v, want %+v", gpus[1].NVLinks, want)
	}
	if gpus[1].Free != 2<<20 {
		t.Errorf("%d bytes are free", gpus[1].Free)
	}
	if gpus[0].NVLinks != nil || gpus[0].Free != 0 {
		t.Errorf("of a GPU that NVML doesn't know something is told: %+v", gpus[0])
	}
}

func TestNoLibrary(t *testing.T) {
	for _, path := range []string{"/nowhere/libnvidia-ml.so.1", "libc.so.6"} {
		if Add(path, nil) == nil {
			t.Errorf("%s is NVML", path)
		}
	}
}
