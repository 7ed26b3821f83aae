// SPDX-License-Identifier: Apache-2.0

package nvml_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cuda/nvml"
	"github.com/paracuda/paracuda/gpubackend/cuda/nvml/nvmltest"
	"github.com/paracuda/paracuda/gpubackend/pcie"
)

func open(t *testing.T, about nvml.Questions) *nvml.Library {
	t.Helper()
	l, err := nvml.Open(nvmltest.Build(t), about)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestGPUs(t *testing.T) {
	l := open(t, nvml.Links|nvml.Processes)
	if n, err := l.Count(); n != 2 || err != nil {
		t.Errorf("%d GPUs, %v", n, err)
	}
	for i, want := range []string{nvmltest.First, nvmltest.Second} {
		g, err := l.At(i)
		if err != nil {
			t.Fatal(err)
		}
		if uuid, err := g.UUID(); uuid != want || err != nil {
			t.Errorf("GPU %d is %s, %v", i, uuid, err)
		}
		if same, err := l.WithUUID(want); same != g || err != nil {
			t.Errorf("%s is another GPU than %d, %v", want, i, err)
		}
		if free, err := g.Free(); free != 2<<20 || err != nil {
			t.Errorf("%d bytes are free, %v", free, err)
		}
	}
}

func TestProcesses(t *testing.T) {
	l := open(t, nvml.Processes)
	for i, want := range [][]nvml.Process{
		{{PID: 10, Used: 526 << 20}, {PID: 11, Used: math.MaxUint64}, {PID: 12, Used: 5 << 30}},
		{},
		{{PID: 10, Used: 526 << 20}, {PID: 11, Used: math.MaxUint64}, {PID: 12, Used: 5 << 30}},
	} {
		g, err := l.At(i % 2)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := g.Processes(); !slices.Equal(got, want) || err != nil {
			t.Errorf("GPU %d has %v, %v", i%2, got, err)
		}
	}
}

func TestLinks(t *testing.T) {
	l := open(t, nvml.Links)
	first, err := l.WithUUID(nvmltest.First)
	if err != nil {
		t.Fatal(err)
	}
	second, err := l.WithUUID(nvmltest.Second)
	if err != nil {
		t.Fatal(err)
	}
	for link, want := range []uint32{1, 0, 1, 1} {
		if up, err := first.LinkState(uint32(link)); up != want || err != nil {
			t.Errorf("link %d: %d, %v", link, up, err)
		}
	}
	for _, g := range []nvml.GPU{first, second} {
		_, err := g.LinkState(4)
		if err == nil || err.Error() != "nvmlDeviceGetNvLinkState: error 2" {
			t.Errorf("a link that isn't there: %v", err)
		}
	}
	if at, err := first.LinkRemote(2); at != (pcie.Address{Bus: 0xa2}) || err != nil {
		t.Errorf("link 2 ends at %+v, %v", at, err)
	}
	if speed, err := first.LinkField(164, 2); speed != 26564 || err != nil {
		t.Errorf("link 2 has %d, %v", speed, err)
	}
	if speed, err := first.LinkField(86, 0); speed != 26562 || err != nil {
		t.Errorf("link 2 by its own field has %d, %v", speed, err)
	}
	if status, err := first.P2P(second, 2); status != 2 || err != nil {
		t.Errorf("P2P %d, %v", status, err)
	}
	if status, err := first.P2P(first, 2); status != 5 || err != nil {
		t.Errorf("P2P to itself %d, %v", status, err)
	}
	checkRefused(t, first)
}

// TestFabric reads the answer of a GPU in each version that the library may have.
func TestFabric(t *testing.T) {
	l := open(t, nvml.Links|nvml.Processes)
	complete := nvml.Fabric{Clique: 7, Health: 0x5155, State: 3, Summary: 2}
	for i := range complete.Cluster {
		complete.Cluster[i] = byte(0xa0 + i)
	}
	for i, want := range []nvml.Fabric{complete, {Status: 3, Health: 0x5155, State: 1}} {
		g, err := l.At(i)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := g.Fabric(); got != want || err != nil {
			t.Errorf("GPU %d: %+v, %v; want %+v", i, got, err, want)
		}
	}
}

// checkRefused checks the errors where the library refuses a field or a function.
func checkRefused(t *testing.T, g nvml.GPU) {
	t.Helper()
	_, field := g.LinkField(1, 0)
	_, capability := g.LinkCapability(0, 5)
	_, remote := g.LinkRemote(3)
	_, p2p := g.P2P(g, 4)
	for name, err := range map[string]error{
		"FieldValues": field, "NvLinkCapability": capability, "NvLinkRemotePciInfo_v2": remote,
		"P2PStatus": p2p,
	} {
		if want := "nvmlDeviceGet" + name + ": error 3"; err == nil || err.Error() != want {
			t.Errorf("%v instead of %s", err, want)
		}
	}
}

// TestQuestions: functions that Open wasn't asked for aren't looked up, as a library may lack them.
func TestQuestions(t *testing.T) {
	l := open(t, nvml.Processes)
	if _, err := l.WithUUID(nvmltest.First); err == nil || !strings.Contains(err.Error(), "13") {
		t.Errorf("a function that wasn't looked up: %v", err)
	}
	g, err := l.At(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.LinkState(0); err == nil {
		t.Error("a link is known, but nobody was to ask about links")
	}
	if _, err := open(t, nvml.Links).Count(); err == nil {
		t.Error("GPUs are counted, but nobody was to ask about processes")
	}
}

func TestNoLibrary(t *testing.T) {
	const missing = "/nowhere/libnvidia-ml.so.1"
	for path, want := range map[string]string{missing: missing, "libc.so.6": "lacks nvmlInit_v2"} {
		_, err := nvml.Open(path, nvml.Links)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
