// SPDX-License-Identifier: Apache-2.0

package hostgpus

import (
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/pcie"
)

var three = []GPU{
	{Name: "A", UUID: "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f",
		Place: pcie.Address{Bus: 0x1a}, Memory: 1 << 30},
	{Name: "B", UUID: "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f",
		Place: pcie.Address{Domain: 1, Bus: 0x1a}, Memory: 2 << 30},
	{Name: "C", UUID: "GPU-10212223-2425-2627-2829-2a2b2c2d2e2f",
		Place: pcie.Address{Bus: 0xc1, Device: 2}, Memory: 3 << 30},
}

// TestOf: each way to name GPUs finds them, in the order in which they are named.
func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"cuda": "A", "auto": "A", "cuda:0": "A", "cuda:2,0": "CA", "cuda:all": "ABC",
		"cuda:GPU-0001": "A", "cuda:gpu-1021": "C", "cuda:" + three[1].UUID: "B",
		"cuda:1a:00.0": "A", "cuda:0001:1a:00.0": "B", "cuda:00000000:C1:02.0,1": "CB",
	} {
		c, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		gpus, err := c.Of(three)
		var names string
		for _, g := range gpus {
			names += g.Name
		}
		if err != nil || names != want {
			t.Errorf("%s: %s, %v; want %s", text, names, err, want)
		}
	}
}

// TestRefusal: what is misspelt, isn't there, or is named twice is refused with what to do.
func TestRefusal(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "want auto, soft or cuda",
		"voodoo":             "want auto, soft or cuda",
		"soft:0":             "want soft, or soft:N",
		"soft:":              "want soft, or soft:N",
		"soft:-1":            "want soft, or soft:N",
		"soft:x":             "want soft, or soft:N",
		"soft:9":             "1 to 8",
		"soft:65537":         "1 to 8",
		"cuda:":              "want its index",
		"cuda:0,":            "want its index",
		"cuda:-1":            "want its index",
		"cuda:all,0":         "want its index",
		"cuda:GPU-":          "want its index",
		"cuda:99999999":      "want its index",
		"cuda:3":             "no GPU 3: the host has GPU 0 to 2",
		"cuda:GPU-77":        "no GPU GPU-77",
		"cuda:GPU-10":        "means GPU 1 and GPU 2",
		"cuda:1b:00.0":       "no GPU 1b:00.0",
		"cuda:1a:00.1":       "want its index",
		"cuda:0,1,0":         "GPU 0, which is named twice",
		"cuda:0,1a:00.0":     "GPU 0, which is named twice",
		"cuda:0" + comma(64): "16 are the most",
		"a\x1b[2J":           `"a\x1b[2J": want`,
	} {
		c, err := Parse(text)
		if err == nil {
			_, err = c.Of(three)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30s: %v; want %q", text, err, want)
		}
	}
	if _, err := (&Choice{}).Of(nil); err == nil {
		t.Error("the first GPU of none")
	}
	if _, err := (&Choice{all: true}).Of(make([]GPU, Most+1)); err == nil {
		t.Error("more GPUs than a worker knows")
	}
}

// TestSoftGPUs: as many as are asked for.
func TestSoftGPUs(t *testing.T) {
	for text, want := range map[string]int{"soft": 1, "soft:1": 1, "soft:2": 2, "soft:8": 8} {
		if c, err := Parse(text); err != nil || c.SoftGPUs() != want || c.Kind != Soft {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

func comma(n int) string { return strings.Repeat(",0", n) }

// TestVisible: a process that sees the GPUs that it is to have needs no list.
func TestVisible(t *testing.T) {
	if list, ok := Visible(three, three); ok {
		t.Error(list)
	}
	some := slices.Clone(three[:2])
	slices.Reverse(some)
	if list, ok := Visible(some, three[:2]); !ok || list != three[1].UUID+","+three[0].UUID {
		t.Errorf("%s, %t", list, ok)
	}
}

func TestUUID(t *testing.T) {
	var u [16]byte
	for i := range u {
		u[i] = byte(i)
	}
	if got := UUID(u); got != three[0].UUID {
		t.Error(got)
	}
	if got, err := ParseUUID(three[0].UUID); got != u || err != nil {
		t.Errorf("%x, %v", got, err)
	}
	for _, text := range []string{
		"", "GPU-", "GPU-0102", "GPU-x1020304-0506-0708-090a-0b0c0d0e0f10",
		"GPU-01020304-0506-0708-090a-0b0c0d0e0f1011",
	} {
		if got, err := ParseUUID(text); err == nil {
			t.Errorf("%q is the UUID %x", text, got)
		}
	}
}
