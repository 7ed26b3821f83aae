// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"
)

// TestProbe: one kind of GPU is enough, and each GPU is named.
func TestProbe(t *testing.T) {
	none := func() ([]string, error) { return nil, errors.New("broken") }
	two := func() ([]string, error) { return []string{"A, 1 MiB", "B, 2 MiB"}, nil }
	for _, tt := range []struct {
		name       string
		cuda, soft func() ([]string, error)
		want       string
		fails      bool
	}{
		{"both", two, two, "cuda: yes\n  GPU 0: A, 1 MiB\n  GPU 1: B, 2 MiB\nsoft: yes\n" +
			"  GPU 0: A, 1 MiB\n  GPU 1: B, 2 MiB\n", false},
		{"software", none, two,
			"cuda: no: broken\nsoft: yes\n  GPU 0: A, 1 MiB\n  GPU 1: B, 2 MiB\n", false},
		{"none", none, none, "cuda: no: broken\nsoft: no: broken\n", true},
	} {
		var b strings.Builder
		err := probeAll(&b, tt.cuda, tt.soft)
		if b.String() != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: %v, %q", tt.name, err, b.String())
		}
	}
}

// TestProbeHere asks the program itself: the software GPU works everywhere.
func TestProbeHere(t *testing.T) {
	code, out, said := ranBy(t, "probe")
	if code != 0 || said != "" || !strings.Contains(out, "soft: yes\n  GPU 0: Paracuda Software") {
		t.Errorf("exit code %d, %q, %q", code, out, said)
	}
}
