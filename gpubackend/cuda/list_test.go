// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
)

// TestList lists the GPUs of the fake driver. Without a driver the error says so.
func TestList(t *testing.T) {
	t.Setenv("FAKE_DEVICES", "3")
	all, err := list(drivertest.Library)
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	for i, want := range []string{
		"GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "GPU-10111213-1415-1617-191a-1b1c1d1e1f20",
	} {
		g := &all[i]
		if g.UUID != want || g.Name != "Fake GPU "+string(rune('0'+i)) || g.Memory == 0 ||
			!strings.HasSuffix(g.String(), " MiB") {
			t.Errorf("%+v", g)
		}
	}
	if !slices.Equal(all[0].Peers, []int{1}) || !slices.Equal(all[1].Peers, []int{0}) ||
		len(all[2].Peers) != 0 {
		t.Errorf("peers: %v", all)
	}
	if all, err := list("/nowhere/libcuda.so.1"); err == nil ||
		!strings.Contains(err.Error(), "no CUDA driver") {
		t.Errorf("%v, %v", all, err)
	}
}
