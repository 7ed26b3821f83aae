// SPDX-License-Identifier: Apache-2.0

package hostgpus

import (
	"strings"
	"testing"
)

// TestMostFree: auto takes the GPUs with the most free memory, in the host's order. If it isn't
// known how much of a GPU's memory is free, all of it counts as free.
func TestMostFree(t *testing.T) {
	host := []GPU{
		{Name: "A", Memory: 80 << 30, Free: 10 << 30},
		{Name: "B", Memory: 80 << 30, Free: 70 << 30},
		{Name: "C", Memory: 24 << 30},
		{Name: "D", Memory: 80 << 30, Free: 70 << 30},
	}
	for text, want := range map[string]string{
		"auto": "A", "auto:1": "B", "auto:2": "BD", "auto:3": "BCD", "auto:4": "ABCD",
		"auto:1,memory=70G": "B", "auto:3,memory=24G": "BCD", "auto:4,memory=10240M": "ABCD",
	} {
		c, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		gpus, err := c.Of(host)
		var names string
		for _, g := range gpus {
			names += g.Name
		}
		if err != nil || names != want || c.Kind != Auto {
			t.Errorf("%s: %s, %v; want %s", text, names, err, want)
		}
	}
	for text, want := range map[string]string{
		"auto:5": "4 of the host's 4 GPUs", "auto:1,memory=71G": "0 of the host's 4",
		"auto:3,memory=30G": "2 of the host's 4", "auto:0": "want auto:N", "auto:": "want auto:N",
		"auto:17": "want auto:N", "auto:x": "want auto:N", "auto:1,": "want auto:N",
		"auto:1,2": "want auto:N", "auto:1,memory=": "want a number",
		"auto:1,memory=1G,": "want a number",
	} {
		c, err := Parse(text)
		if err == nil {
			_, err = c.Of(host)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// TestAutoSoft: software GPUs stand in for those of a host that has none.
func TestAutoSoft(t *testing.T) {
	for text, want := range map[string]string{
		"auto": "", "soft:8": "", "auto:8": "", "auto:8,memory=2G": "", "auto:9": "8 are the most",
		"auto:1,memory=3G": "soft-memory",
	} {
		c, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		err = c.CheckSoft(2 << 30)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}
