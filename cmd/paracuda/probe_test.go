// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/pcie"
	"github.com/paracuda/paracuda/gpubackend/xid"
)

// TestProbe: one kind of GPU is enough. Each GPU is listed with all names that --gpu takes for it.
func TestProbe(t *testing.T) {
	none := func() ([]hostgpus.GPU, error) { return nil, errors.New("broken") }
	two := func() ([]hostgpus.GPU, error) {
		return []hostgpus.GPU{
			{Name: "A", UUID: "GPU-1", Memory: 3 << 20, Free: 1 << 20, Peers: []int{1, 2},
				NVLinks: []hostgpus.NVLink{
					{Version: 7, Remote: hostgpus.RemoteGPU, At: pcie.Address{Bus: 0x65}},
					{Version: 7, Remote: hostgpus.RemoteSwitch},
					{Version: 7, Remote: hostgpus.RemoteGPU, At: pcie.Address{Bus: 0x65}},
					{},
					{Version: 7, Remote: hostgpus.RemoteUnknown},
				}},
			{Name: "B", UUID: "GPU-2", Memory: 2 << 20, Place: pcie.Address{Bus: 0x65}},
		}, nil
	}
	vms := []link.VM{
		{Name: "b", GPUs: []link.GPU{{Name: "GPU-2"}, {Name: "GPU-1"}}, Room: 20 << 30,
			Policy: map[string]string{"exclusive": "on", "memory": "8G", "weight": "3"}},
		{Name: "a", GPUs: []link.GPU{{Name: "GPU-2"}},
			Policy: map[string]string{"exclusive": "off", "memory-mode": "off"},
			Figures: &link.Figures{
				Memory: map[string]uint64{"window": 4 << 20, "mapped": 1 << 20},
				OnEach: []uint64{5 << 20},
				Faults: []link.Fault{{GPU: 0, Result: cudaabi.ErrorUnknown, Time: 60},
					{GPU: 1}, {GPU: -1}},
			}},
		{Name: "c", GPUs: []link.GPU{{Name: "GPU-1"}, {Name: "GPU-9"}}, Figures: &link.Figures{
			Memory: map[string]uint64{"window": 9 << 20}, OnEach: []uint64{2 << 20, 7 << 20},
			Faults: []link.Fault{{GPU: 1, Result: cudaabi.ErrorUnknown, Time: 60}},
		}},
		{Name: "s", GPUs: []link.GPU{{Name: "soft"}, {Name: "soft-1"}, {Name: "soft-2"}},
			Figures: &link.Figures{Memory: map[string]uint64{"window": 3 << 20},
				OnEach: []uint64{1 << 20, 2 << 20, 0},
				Faults: []link.Fault{{GPU: 2, Result: cudaabi.ErrorUnknown, Time: 60}}}},
	}
	xids := []xid.Message{
		{GPU: pcie.Address{Bus: 0x65}, Number: 79, Text: "gone", Since: time.Minute},
		{GPU: pcie.Address{Bus: 0x99}, Number: 48, Text: "DBE"},
	}
	const log, gone = "    the kernel's log, 1m0s after the host's start: GPU at 0000:65:00.0: " +
		"Xid 79: gone\n",
		"    the kernel's log, 0s after the host's start: GPU at 0000:99:00.0: Xid 48: DBE\n"
	const a, b = "  GPU 0: A, 3 MiB, 0000:00:00.0, GPU-1\n    1 MiB are free\n" +
		"    reaches the memory of GPU 1, 2\n" +
		"    NVLinks: 2 to GPU 1, 1 to switches, 1 to elsewhere\n",
		"  GPU 1: B, 2 MiB, 0000:65:00.0, GPU-2\n"
	const ofB = "    VM b: has 0 MiB of its 2 GPUs together, was given 20G, memory=8G, " +
		"exclusive=on\n"
	const ofC, ofCGone = "    VM c: has 2 MiB, 9 MiB of its 2 GPUs together\n",
		"  a VM's GPU that isn't there: GPU-9\n" +
			"    VM c: has 7 MiB, 9 MiB of its 2 GPUs together\n" +
			"      GPU-9 is broken, or gone, since 1970-01-01 00:01:00: CUDA_ERROR_UNKNOWN (999)\n"
	const ofA = "    VM a: has 5 MiB\n" +
		"      GPU-2 is broken, or gone, since 1970-01-01 00:01:00: CUDA_ERROR_UNKNOWN (999)\n"
	const lines = a + ofB + ofC + b + log + ofA + ofB + ofCGone + gone
	const allGone = "  a VM's GPU that isn't there: GPU-1\n" + ofB + ofC +
		"  a VM's GPU that isn't there: GPU-2\n" + ofA + ofB + ofCGone + log + gone
	const soft = a + "    VM s: has 1 MiB, 3 MiB of its 3 GPUs together\n" +
		b + "    VM s: has 2 MiB, 3 MiB of its 3 GPUs together\n" +
		"      soft-2 is broken, or gone, since 1970-01-01 00:01:00: CUDA_ERROR_UNKNOWN (999)\n"
	for _, tt := range []struct {
		name       string
		cuda, soft lister
		want       string
		fails      bool
	}{
		{"both", two, two, "cuda: yes\n" + lines + "soft: yes\n" + soft, false},
		{"software", none, two, "cuda: no: broken\n" + allGone + "soft: yes\n" + soft, false},
		{"none", none, none, "cuda: no: broken\n" + allGone + "soft: no: broken\n", true},
	} {
		var b strings.Builder
		err := probeAll(&b, false, sources{tt.cuda, tt.soft, vms, xids})
		if b.String() != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: %v, %q", tt.name, err, b.String())
		}
	}
	var out strings.Builder
	var said map[string]probed
	if err := probeAll(&out, true, sources{none, two, vms, xids}); err != nil {
		t.Error(err)
	}
	if err := json.Unmarshal([]byte(out.String()), &said); err != nil ||
		said[gpuCUDA].Error != "broken" || len(said[gpuSoft].GPUs) != 2 ||
		said[gpuSoft].GPUs[1].Place.Bus != 0x65 || said[gpuSoft].GPUs[1].UUID != "GPU-2" ||
		len(said[gpuCUDA].VMs) != 3 || said[gpuCUDA].VMs[0].Memory != 5<<20 ||
		said[gpuCUDA].VMs[1].Given != 20<<30 || said[gpuSoft].VMs[0].VM != "s" ||
		!slices.Equal(said[gpuCUDA].VMs[2].OnEach, []uint64{2 << 20, 7 << 20}) ||
		said[gpuCUDA].VMs[2].Faults[0].GPU != "GPU-9" {
		t.Errorf("%v: %+v of %s", err, said, out.String())
	}
}

// TestProbeHere runs paracuda probe: the software GPU works everywhere.
func TestProbeHere(t *testing.T) {
	code, out, said := ranBy(t, "probe")
	if code != 0 || said != "" || !strings.Contains(out, "soft: yes\n  GPU 0: Paracuda Software") {
		t.Errorf("exit code %d, %q, %q", code, out, said)
	}
	code, out, said = ranBy(t, "probe", "--json")
	var all map[string]probed
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 || said != "" ||
		len(all[gpuSoft].GPUs) != 1 || !strings.HasPrefix(all[gpuSoft].GPUs[0].UUID, "GPU-") {
		t.Errorf("exit code %d, %v: %q, %q", code, err, out, said)
	}
	if code, _, said := ranBy(t, "probe", "--json", "--quick"); code != 2 ||
		!strings.Contains(said, "--quick or --json") {
		t.Errorf("exit code %d, %q", code, said)
	}
}
