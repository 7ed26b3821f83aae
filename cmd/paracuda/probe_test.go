// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/pcie"
)

// TestProbe: one kind of GPU is enough, and each GPU is named, with all that --gpu takes for it.
func TestProbe(t *testing.T) {
	none := func() ([]hostgpus.GPU, error) { return nil, errors.New("broken") }
	two := func() ([]hostgpus.GPU, error) {
		return []hostgpus.GPU{
			{Name: "A", UUID: "GPU-1", Memory: 1 << 20, Peers: []int{1, 2}},
			{Name: "B", UUID: "GPU-2", Memory: 2 << 20, Place: pcie.Address{Bus: 0x65}},
		}, nil
	}
	const lines = "  GPU 0: A, 1 MiB, 0000:00:00.0, GPU-1\n" +
		"    reaches the memory of GPU 1, 2\n  GPU 1: B, 2 MiB, 0000:65:00.0, GPU-2\n"
	for _, tt := range []struct {
		name       string
		cuda, soft lister
		want       string
		fails      bool
	}{
		{"both", two, two, "cuda: yes\n" + lines + "soft: yes\n" + lines, false},
		{"software", none, two, "cuda: no: broken\nsoft: yes\n" + lines, false},
		{"none", none, none, "cuda: no: broken\nsoft: no: broken\n", true},
	} {
		var b strings.Builder
		err := probeAll(&b, false, tt.cuda, tt.soft)
		if b.String() != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: %v, %q", tt.name, err, b.String())
		}
	}
	var b strings.Builder
	var said map[string]probed
	if err := probeAll(&b, true, none, two); err != nil {
		t.Error(err)
	}
	if err := json.Unmarshal([]byte(b.String()), &said); err != nil ||
		said[gpuCUDA].Error != "broken" || len(said[gpuSoft].GPUs) != 2 ||
		said[gpuSoft].GPUs[1].Place.Bus != 0x65 || said[gpuSoft].GPUs[1].UUID != "GPU-2" {
		t.Errorf("%v: %+v of %s", err, said, b.String())
	}
}

// TestProbeHere asks the program itself: the software GPU works everywhere.
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
