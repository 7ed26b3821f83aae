// SPDX-License-Identifier: Apache-2.0

package nvlinks

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cuda/nvml/nvmltest"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/pcie"
)

func TestAdd(t *testing.T) {
	gpus := []hostgpus.GPU{
		{UUID: "GPU-00000000-0000-0000-0000-000000000000"},
		{UUID: nvmltest.First},
		{UUID: nvmltest.Second},
	}
	if err := Add(nvmltest.Build(t), gpus); err != nil {
		t.Fatal(err)
	}
	want := []hostgpus.NVLink{
		{Version: 6, Capabilities: 5, Speed: 26562, Remote: hostgpus.RemoteSwitch,
			RemoteLink: 1, At: pcie.Address{Domain: 0xffffffff, Bus: 0xff, Device: 0xff}},
		{},
		{Version: 6, Capabilities: 5, Speed: 26564, Named: true, Remote: hostgpus.RemoteGPU,
			RemoteLink: 3, At: pcie.Address{Bus: 0xa2}},
		{Version: 6, Capabilities: 5, Speed: 26565, Remote: hostgpus.RemoteUnknown},
	}
	if !slices.Equal(gpus[1].NVLinks, want) {
		t.Errorf("links %+v, want %+v", gpus[1].NVLinks, want)
	}
	// A child of the device process finds the links, and passes them on as JSON.
	text, err := json.Marshal(gpus)
	var told []hostgpus.GPU
	if err == nil {
		err = json.Unmarshal(text, &told)
	}
	if err != nil || !slices.Equal(told[1].NVLinks, want) {
		t.Errorf("%v: links %+v are told as %+v", err, want, told)
	}
	if gpus[1].Free != 2<<20 {
		t.Errorf("%d bytes are free", gpus[1].Free)
	}
	itself := [5]uint8{6, 6, 6, 6, 0}
	for i, ways := range [][]hostgpus.Way{
		1: {{To: gpus[1].UUID, P2P: itself}, {To: gpus[2].UUID, P2P: [5]uint8{1, 2, 3, 4, 0}}},
		2: {{To: gpus[1].UUID, P2P: [5]uint8{1, 1, 1, 1, 0}}, {To: gpus[2].UUID, P2P: itself}},
	} {
		if !slices.Equal(gpus[i].Ways, ways) {
			t.Errorf("ways %+v, want %+v", gpus[i].Ways, ways)
		}
	}
	complete := hostgpus.Fabric{Clique: 7, Health: 0x5155, State: 3, Summary: 2}
	for i := range complete.Cluster {
		complete.Cluster[i] = byte(0xa0 + i)
	}
	if told[1].NVLinkSpeed != 26000 || told[1].Fabric == nil || *told[1].Fabric != complete {
		t.Errorf("links of %d MB/s, fabric %+v; want 26000, %+v", told[1].NVLinkSpeed,
			told[1].Fabric, complete)
	}
	if gpus[0].Fabric != nil || gpus[0].NVLinks != nil || gpus[0].Free != 0 || gpus[0].Ways != nil {
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
